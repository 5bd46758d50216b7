//! Requests: whose token goes where, which redirects are followed, what a status means.

use std::{
    io::{self, Read},
    panic,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use ureq::{
    Agent, Body,
    http::{self, HeaderMap, Method},
    tls::{RootCerts, TlsConfig},
};

use crate::{
    error::Error,
    settings::Settings,
    url::{host, join, origin},
};

const REDIRECTS: usize = 10;
/// How often a question is asked: who waits for the answer to the first one has nothing yet.
const QUESTIONS: u32 = 3;
/// The most bytes of an answer that is read as a text.
const TEXT_BYTES: u64 = 64 << 20;
/// The longest time that a server may have us wait.
const LONGEST_WAIT: Duration = Duration::from_secs(120);
/// How often a wait looks whether the caller wants more.
const LOOK: Duration = Duration::from_millis(50);

/// What sends requests.
pub struct Http {
    agent: Agent,
    stall: Duration,
    tries: u32,
    wait: Duration,
    /// Whether encrypted connections can be made.
    encrypts: bool,
}

/// A secret and whose it is.
#[derive(Clone)]
pub struct Token {
    origin: String,
    secret: String,
}

/// What to ask for.
pub struct Request<'a> {
    pub method: Method,
    pub url: &'a str,
    pub headers: &'a [(&'a str, &'a str)],
    pub token: Option<&'a Token>,
    /// Whether redirects to others are followed; otherwise they are the answer.
    pub follow: bool,
    /// What it is about, for messages.
    pub about: &'a str,
    /// A page about it.
    pub page: Option<&'a str>,
}

/// An answer with a status below 400.
pub struct Answer {
    pub status: u16,
    /// Who answered, after redirects.
    pub url: String,
    headers: HeaderMap,
    body: Body,
}

impl Token {
    /// A secret for the server of an address.
    pub fn of(url: &str, secret: &str) -> Option<Token> {
        Some(Token { origin: origin(url)?, secret: secret.to_owned() })
    }
}

impl<'a> Request<'a> {
    /// Asks for what is at an address.
    pub fn get(url: &'a str, about: &'a str) -> Request<'a> {
        Request { method: Method::GET, url, headers: &[], token: None, follow: true, about, page: None }
    }
}

impl Answer {
    /// A header, if it is there and text.
    pub fn header(&self, name: &str) -> Option<&str> {
        text(&self.headers, name)
    }

    /// A header that is a number.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.header(name)?.trim().parse().ok()
    }

    /// What compares a file with what it will be later.
    pub fn validator(&self) -> Option<String> {
        // A weak one says that a file is much the same.
        let strong = self.header("etag").filter(|etag| !etag.starts_with("W/"));
        strong.or_else(|| self.header("last-modified")).map(str::to_owned)
    }

    /// What comes.
    pub fn reader(self) -> impl Read {
        self.body.into_reader()
    }

    /// What comes, as a value.
    pub fn json(self) -> Result<serde_json::Value, Error> {
        let host = host(&self.url);
        let mut bytes = Vec::new();
        self.reader().take(TEXT_BYTES).read_to_end(&mut bytes).map_err(|error| broken(&host, Duration::ZERO, error))?;
        serde_json::from_slice(&bytes)
            .map_err(|error| Error::Answer { problem: format!("expected JSON, got something else ({error})"), host })
    }
}

/// What makes connections, and whether it can encrypt them: it waits `stall` for the other side.
pub fn agent(stall: Duration, idle: usize) -> (Agent, bool) {
    let provider = Arc::new(rustls_graviola::default_provider());
    // It panics where the processor lacks an instruction, and that is better known now than within a connection.
    let encrypts = panic::catch_unwind(panic::AssertUnwindSafe(|| provider.kx_groups[0].start().is_ok()));
    let tls = TlsConfig::builder()
        .root_certs(RootCerts::PlatformVerifier)
        .unversioned_rustls_crypto_provider(provider)
        .build();
    let config = Agent::config_builder()
        .tls_config(tls)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .http_status_as_error(false)
        .accept_encoding("identity")
        .user_agent(concat!("candor/", env!("CARGO_PKG_VERSION")))
        .max_idle_connections_per_host(idle)
        .timeout_connect(Some(stall))
        .timeout_resolve(Some(stall))
        .timeout_per_read(Some(stall))
        .timeout_per_write(Some(stall))
        .build();
    (config.new_agent(), encrypts.unwrap_or(false))
}

impl Http {
    /// As the settings say, with the certificates of the system and the proxies of the environment.
    pub fn new(settings: &Settings) -> Http {
        let (agent, encrypts) = agent(settings.stall, settings.connections);
        Http { agent, stall: settings.stall, tries: settings.tries, wait: settings.wait, encrypts }
    }

    /// Ends all connections: what reads of them ends with an error.
    pub fn shutdown(&self) {
        self.agent.clone().shutdown();
    }

    /// Sends a request once.
    pub fn send(&self, request: &Request<'_>) -> Result<Answer, Error> {
        let mut url = request.url.to_owned();
        for _ in 0..=REDIRECTS {
            let answer = self.send_to(&url, request)?;
            let redirect = (301..=308).contains(&answer.status).then(|| answer.header("location")).flatten();
            let Some(location) = redirect else { return Ok(answer) };
            let problem = |problem: &str| Error::Answer { host: host(&url), problem: format!("{problem} {location}") };
            let next = join(&url, location).ok_or_else(|| problem("it leads to"))?;
            if !request.follow && origin(&next) != origin(&url) {
                return Ok(answer);
            }
            if url.starts_with("https:") && !next.starts_with("https:") {
                return Err(problem("it leads out of an encrypted connection to"));
            }
            url = next;
        }
        Err(Error::Answer { host: host(&url), problem: format!("more than {REDIRECTS} redirects") })
    }

    fn send_to(&self, url: &str, request: &Request<'_>) -> Result<Answer, Error> {
        let host = host(url);
        encryptable(url, self.encrypts)?;
        let mut builder = http::Request::builder().method(request.method.clone()).uri(url);
        for (name, value) in request.headers {
            builder = builder.header(*name, *value);
        }
        let token = request.token.filter(|token| origin(url).as_deref() == Some(&token.origin));
        if let Some(token) = token {
            builder = builder.header("authorization", format!("Bearer {}", token.secret));
        }
        let wrong = |error: http::Error| Error::Answer { host: host.clone(), problem: error.to_string() };
        let built = builder.body(()).map_err(wrong)?;
        let response = self.agent.run(built).map_err(|error| failed(&host, self.stall, error))?;
        let (parts, body) = response.into_parts();
        let status = parts.status.as_u16();
        if status >= 400 {
            return Err(refused(status, &parts.headers, host, request, token.is_some()));
        }
        if let Some(encoding) = text(&parts.headers, "content-encoding").filter(|encoding| *encoding != "identity") {
            let problem = format!("it sends the file compressed ({encoding}), which nobody asked for");
            return Err(Error::Answer { host, problem });
        }
        Ok(Answer { status, url: url.to_owned(), headers: parts.headers, body })
    }

    /// The error of an answer that is read.
    pub fn broken(&self, host: &str, error: io::Error) -> Error {
        broken(host, self.stall, error)
    }

    /// Asks again where that may help.
    pub fn persist<T>(
        &self,
        cancelled: &dyn Fn() -> bool,
        mut ask: impl FnMut() -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut failed = 0;
        loop {
            match ask() {
                Err(error) if error.passes() => {
                    failed += 1;
                    self.pause(failed, QUESTIONS.min(self.tries), error, cancelled)?;
                }
                done => return done,
            }
        }
    }

    /// How often in a row to try to get more of a file.
    pub fn tries(&self) -> u32 {
        self.tries
    }

    /// Waits after the `failed`th error in a row; from the `most`th on it is returned.
    pub fn pause(&self, failed: u32, most: u32, error: Error, cancelled: &dyn Fn() -> bool) -> Result<(), Error> {
        let asked = match error {
            Error::Busy { after, .. } => after,
            _ => None,
        };
        if failed >= most || asked.is_some_and(|asked| asked > LONGEST_WAIT) {
            return Err(error);
        }
        let doubled = self.wait.saturating_mul(1 << (failed - 1).min(6));
        let until = Instant::now() + asked.unwrap_or(doubled).max(doubled.min(LONGEST_WAIT));
        while Instant::now() < until {
            if cancelled() {
                return Err(Error::Cancelled);
            }
            thread::sleep(LOOK.min(until.saturating_duration_since(Instant::now())));
        }
        Ok(())
    }
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

/// Refuses an encrypted connection where none can be made.
pub fn encryptable(url: &str, encrypts: bool) -> Result<(), Error> {
    if encrypts || !url.starts_with("https:") {
        return Ok(());
    }
    let problem = "this processor lacks instructions that connections are encrypted with".to_owned();
    Err(Error::Answer { host: host(url), problem })
}

/// The error of a connection that waits `stall`.
pub fn failed(host: &str, stall: Duration, error: ureq::Error) -> Error {
    let host = host.to_owned();
    let problem = match error {
        ureq::Error::Timeout(_) => return Error::Stalled { host, after: stall },
        ureq::Error::Io(error) if error.kind() == io::ErrorKind::TimedOut => {
            return Error::Stalled { host, after: stall };
        }
        ureq::Error::HostNotFound => "there is no such host, or no network".to_owned(),
        ureq::Error::Io(error) => error.to_string(),
        ureq::Error::Rustls(error) => return Error::Answer { host, problem: format!("its certificate: {error}") },
        ureq::Error::BadUri(_) | ureq::Error::Http(_) | ureq::Error::InvalidProxyUrl => {
            return Error::Answer { host, problem: error.to_string() };
        }
        error => error.to_string(),
    };
    Error::Connection { host, problem }
}

/// The error of a body that is read.
pub fn broken(host: &str, stall: Duration, error: io::Error) -> Error {
    let host = host.to_owned();
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<ureq::Error>());
    if matches!(inner, Some(ureq::Error::Timeout(_))) || error.kind() == io::ErrorKind::TimedOut {
        return Error::Stalled { host, after: stall };
    }
    Error::Connection { host, problem: format!("the connection broke: {error}") }
}

/// What a status of 400 and above means.
fn refused(status: u16, headers: &HeaderMap, host: String, request: &Request<'_>, token: bool) -> Error {
    let (name, page) = (request.about.to_owned(), request.page.map(str::to_owned));
    // Hugging Face answers anonymous questions for what is not there with 401, too.
    match (status, text(headers, "x-error-code")) {
        (401, code) => Error::Unauthorized { name, host, token, gated: code == Some("GatedRepo"), page },
        (403, Some("GatedRepo")) if !token => Error::Unauthorized { name, host, token, gated: true, page },
        (403, _) => Error::Forbidden { name, host, page },
        (404 | 410, _) => Error::NotFound { name, host },
        (416, _) => Error::Changed { name },
        (408 | 425 | 429 | 500.., _) => {
            let after = text(headers, "retry-after").and_then(|text| text.trim().parse().ok());
            Error::Busy { host, status, after: after.map(Duration::from_secs) }
        }
        _ => Error::Answer { host, problem: format!("it answers with status {status}") },
    }
}
