//! Bytes for an address: encrypted, and through proxies, as files are fetched.

use std::{io::Read, time::Duration};

use ureq::{Agent, http};

use crate::{
    error::Error,
    http::{agent, broken, encryptable, failed},
    url::host,
};

/// What sends bytes to addresses.
#[derive(Debug)]
pub struct Post {
    agent: Agent,
    encrypts: bool,
    stall: Duration,
}

/// What came back.
#[derive(Clone, Debug)]
pub struct Posted {
    /// The status, also one that says no.
    pub status: u16,
    /// The names and values of headers that are text.
    pub headers: Vec<(String, String)>,
    /// The body; what is beyond 4 MiB is left out.
    pub body: Vec<u8>,
}

/// The most bytes of an answer.
const MOST: u64 = 4 << 20;

impl Post {
    /// With the certificates of the system and the proxies of the environment. It waits `stall` for the other side.
    pub fn new(stall: Duration) -> Post {
        let (agent, encrypts) = agent(stall, 1);
        Post { agent, encrypts, stall }
    }

    /// Sends bytes once. Redirects are not followed.
    ///
    /// # Errors
    /// If the address is no address, nobody answers there, or the answer ends too early.
    pub fn send(&self, url: &str, headers: &[(&str, &str)], body: &[u8]) -> Result<Posted, Error> {
        encryptable(url, self.encrypts)?;
        let host = host(url);
        let builder = headers.iter().fold(http::Request::post(url), |all, (name, value)| all.header(*name, *value));
        let request = builder.body(body).map_err(|error| failed(&host, self.stall, error.into()))?;
        let answer = self.agent.run(request).map_err(|error| failed(&host, self.stall, error))?;
        let (parts, body) = answer.into_parts();
        let text = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
            Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))
        };
        let mut bytes = Vec::new();
        let read = body.into_reader().take(MOST).read_to_end(&mut bytes);
        read.map_err(|error| broken(&host, self.stall, error))?;
        Ok(Posted {
            status: parts.status.as_u16(),
            headers: parts.headers.iter().filter_map(text).collect(),
            body: bytes,
        })
    }
}
