//! A line of JSON for each request: when, which path, how it ended. Never what it says.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use axum::{
    body::{Body, Bytes, HttpBody},
    extract::{Request, State},
    http::{HeaderName, HeaderValue},
    middleware::Next,
    response::Response,
};
use candor::Finish;
use hyper::body::{Frame, SizeHint};
use serde_json::{Value, json};

use crate::app::App;

/// Which request a response is for, also in the log.
const ID: HeaderName = HeaderName::from_static("x-request-id");

/// Requests that came.
static CAME: AtomicU64 = AtomicU64::new(0);

/// The tokens of a request's answers, as they end.
#[derive(Default)]
pub struct Counts {
    prompt: AtomicU64,
    reused: AtomicU64,
    written: AtomicU64,
}

/// A request that is being answered; its line is printed when it is gone.
struct Entry {
    print: fn(&str),
    id: String,
    method: String,
    path: String,
    at: SystemTime,
    begun: Instant,
    status: Option<u16>,
    counts: Option<Arc<Counts>>,
    /// Whether all of the response was taken.
    whole: bool,
}

/// A response's body with its request's line.
struct Watched {
    body: Body,
    entry: Entry,
}

impl Counts {
    /// Those of texts that are read alone.
    pub fn of_prompts(tokens: usize) -> Counts {
        Counts { prompt: AtomicU64::new(tokens as u64), ..Counts::default() }
    }

    /// Adds an answer.
    pub fn add(&self, finish: &Finish) {
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
}

/// Gives each request a name, and has its line printed at its end.
pub async fn logged(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let at = SystemTime::now();
    let seconds = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let id = format!("req-{seconds:x}-{:x}", CAME.fetch_add(1, Ordering::Relaxed));
    let entry = app.config.log.map(|print| Entry {
        print,
        id: id.clone(),
        method: request.method().to_string(),
        path: request.uri().path().to_owned(),
        at,
        begun: Instant::now(),
        status: None,
        counts: None,
        whole: false,
    });
    let mut response = next.run(request).await;
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(ID, id);
    }
    let Some(mut entry) = entry else { return response };
    entry.status = Some(response.status().as_u16());
    entry.counts = response.extensions_mut().remove();
    let (parts, body) = response.into_parts();
    entry.whole = body.is_end_stream();
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
        self.entry.whole |= ended;
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
        let at = self.at.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
        let ms = self.begun.elapsed().as_micros() as f64 / 1e3;
        let mut line = json!({
            "time": at as f64 / 1e3,
            "id": self.id,
            "method": self.method,
            "path": self.path,
            "status": self.status,
            "ms": ms,
        });
        if let Some(counts) = &self.counts {
            let get = |counter: &AtomicU64| Value::from(counter.load(Ordering::Relaxed));
            line["prompt_tokens"] = get(&counts.prompt);
            line["cached_tokens"] = get(&counts.reused);
            line["tokens"] = get(&counts.written);
        }
        if !self.whole {
            line["left"] = true.into();
        }
        (self.print)(&line.to_string());
    }
}
