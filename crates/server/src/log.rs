//! What is noted of each request: when it came, which path, how it ended. Never what it says.

use std::{
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use axum::{
    body::{Body, Bytes, HttpBody},
    extract::{MatchedPath, Request, State},
    http::{HeaderName, HeaderValue},
    middleware::Next,
    response::Response,
};
use candor::{Event, Finish};
use hyper::body::{Frame, SizeHint};
use serde_json::{Value, json};

use crate::{app::App, config::Config};

/// Which request a response is for, also in the log.
const ID: HeaderName = HeaderName::from_static("x-request-id");

/// Requests that came.
static CAME: AtomicU64 = AtomicU64::new(0);

/// A request that has ended, and nothing of what it says.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Ended {
    /// Its name, which the client hears of.
    pub id: String,
    /// Its method.
    pub method: String,
    /// The path that it asked for, without what follows a `?`.
    pub path: String,
    /// Which of the server's paths that is, such as `/trace/{id}`; `None` where it is no one's.
    pub route: Option<String>,
    /// Its header `traceparent`: which span of W3C Trace Context it is a part of.
    pub trace_parent: Option<String>,
    /// Its header `tracestate`.
    pub trace_state: Option<String>,
    /// When it came.
    pub at: SystemTime,
    /// How long it took until its response was sent or given up.
    pub took: Duration,
    /// The response's status; `None` where the client left before there was one.
    pub status: Option<u16>,
    /// Whether all of the response was sent.
    pub whole: bool,
    /// What a model did for it.
    pub work: Option<Done>,
}

/// What a model did for a request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Done {
    /// What the model is called.
    pub model: String,
    /// Tokens of its prompts.
    pub prompt: u64,
    /// How many of them did not have to be read.
    pub reused: u64,
    /// Tokens of its answers.
    pub written: u64,
    /// How long after the request came its first prompt began to be read; `None` for texts that are only read.
    pub begun: Option<Duration>,
    /// How long after the request came its first token was there.
    pub first: Option<Duration>,
}

/// What a model does for a request, as it happens.
#[derive(Default)]
pub struct Counts {
    model: String,
    prompt: AtomicU64,
    reused: AtomicU64,
    written: AtomicU64,
    begun: OnceLock<Instant>,
    first: OnceLock<Instant>,
}

/// A request that is being answered; what hears of its end does when this is gone.
struct Entry {
    log: Option<fn(&str)>,
    hear: Option<fn(&Ended)>,
    begun: Instant,
    counts: Option<Arc<Counts>>,
    ended: Ended,
}

/// A response's body with its request's line.
struct Watched {
    body: Body,
    entry: Entry,
}

impl Counts {
    /// Those of a model's answers.
    pub fn of_answers(model: &str) -> Counts {
        Counts { model: model.to_owned(), ..Counts::default() }
    }

    /// Those of texts that are read alone.
    pub fn of_prompts(model: &str, tokens: usize) -> Counts {
        Counts { prompt: AtomicU64::new(tokens as u64), ..Counts::of_answers(model) }
    }

    /// Notes what happens to an answer.
    pub fn note(&self, event: &Event) {
        match event {
            Event::Begun { .. } => drop(self.begun.set(Instant::now())),
            Event::Piece(_) => drop(self.first.set(Instant::now())),
            Event::Done(finish) => self.add(finish),
            _ => {}
        }
    }

    fn add(&self, finish: &Finish) {
        for (counter, number) in
            [(&self.prompt, finish.prompt), (&self.reused, finish.reused), (&self.written, finish.tokens)]
        {
            counter.fetch_add(number as u64, Ordering::Relaxed);
        }
    }

    /// A response that they are of.
    pub fn noted(self: Arc<Counts>, mut response: Response) -> Response {
        response.extensions_mut().insert(self);
        response
    }

    /// What was done, for a request that came at `begun`.
    fn done(&self, begun: Instant) -> Done {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let since = |at: &OnceLock<Instant>| at.get().map(|at| at.saturating_duration_since(begun));
        Done {
            model: self.model.clone(),
            prompt: get(&self.prompt),
            reused: get(&self.reused),
            written: get(&self.written),
            begun: since(&self.begun),
            first: since(&self.first),
        }
    }
}

impl Entry {
    /// That of a request which came now.
    fn of(request: &Request, id: &str, at: SystemTime, config: &Config) -> Entry {
        let header = |name| request.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let route = request.extensions().get::<MatchedPath>();
        let ended = Ended {
            id: id.to_owned(),
            method: request.method().to_string(),
            path: request.uri().path().to_owned(),
            route: route.map(|route| route.as_str().to_owned()),
            trace_parent: header("traceparent"),
            trace_state: header("tracestate"),
            at,
            took: Duration::ZERO,
            status: None,
            whole: false,
            work: None,
        };
        Entry { log: config.log, hear: config.ended, begun: Instant::now(), counts: None, ended }
    }
}

impl Ended {
    /// Its line of the log, in JSON.
    fn line(&self) -> Value {
        let at = self.at.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
        let mut line = json!({
            "time": at as f64 / 1e3,
            "id": self.id,
            "method": self.method,
            "path": self.path,
            "status": self.status,
            "ms": self.took.as_micros() as f64 / 1e3,
        });
        if let Some(work) = &self.work {
            line["prompt_tokens"] = work.prompt.into();
            line["cached_tokens"] = work.reused.into();
            line["tokens"] = work.written.into();
        }
        if !self.whole {
            line["left"] = true.into();
        }
        line
    }
}

/// Gives each request a name, and has its end heard of.
pub async fn logged(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let at = SystemTime::now();
    let seconds = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let id = format!("req-{seconds:x}-{:x}", CAME.fetch_add(1, Ordering::Relaxed));
    let heard = app.config.log.is_some() || app.config.ended.is_some();
    let entry = heard.then(|| Entry::of(&request, &id, at, &app.config));
    let mut response = next.run(request).await;
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(ID, id);
    }
    let Some(mut entry) = entry else { return response };
    entry.ended.status = Some(response.status().as_u16());
    entry.counts = response.extensions_mut().remove();
    let (parts, body) = response.into_parts();
    entry.ended.whole = body.is_end_stream();
    Response::from_parts(parts, Body::new(Watched { body, entry }))
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        let ended = matches!(frame, Poll::Ready(None)) || self.body.is_end_stream();
        self.entry.ended.whole |= ended;
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.ended.took = self.begun.elapsed();
        self.ended.work = self.counts.as_ref().map(|counts| counts.done(self.begun));
        if let Some(print) = self.log {
            print(&self.ended.line().to_string());
        }
        if let Some(hear) = self.hear {
            hear(&self.ended);
        }
    }
}
