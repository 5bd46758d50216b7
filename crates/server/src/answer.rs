//! The answers of a request on their way out: as one body, or piece by piece. Both are made of the same parts.

use std::{collections::VecDeque, convert::Infallible, sync::Arc, time::Duration};

use axum::{
    Json,
    body::Body,
    http::{HeaderName, HeaderValue, header},
    response::{
        IntoResponse, Response, Sse,
        sse::{Event as Sent, KeepAlive},
    },
};
use candor::{Event, Finish, Piece};
use futures_util::{StreamExt, stream};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::{log::Counts, refusal::Refusal, registry::Held, traces::Trace};

/// The answers to the prompts of a request. Where it is dropped they are cancelled.
pub struct Answers {
    events: mpsc::Receiver<(usize, Event)>,
    /// Those that have not ended.
    open: usize,
    /// Where what happens is noted.
    trace: Option<Arc<Trace>>,
    counts: Arc<Counts>,
    _held: Arc<Held>,
}

/// What an endpoint makes of answers. Each call returns the values that a stream sends then.
pub trait Form: Send + 'static {
    /// Before all answers.
    fn begin(&mut self) -> Vec<Value>;
    /// A prompt begins to be read, without `reused` of its tokens, which are in memory.
    fn begun(&mut self, _index: usize, _reused: usize) -> Vec<Value> {
        Vec::new()
    }
    /// Tokens of a prompt were read: `done` of them are in memory now.
    fn read(&mut self, _index: usize, _done: usize) -> Vec<Value> {
        Vec::new()
    }
    /// A piece of an answer; its text may be empty.
    fn piece(&mut self, index: usize, piece: &Piece) -> Vec<Value>;
    /// The end of an answer.
    fn end(&mut self, index: usize, finish: &Finish) -> Vec<Value>;
    /// After all answers.
    fn done(&mut self) -> Vec<Value>;
    /// What ends a stream, besides.
    const LAST: Option<&'static str>;
    /// How a stream is sent.
    const FRAMING: Framing = Framing::Data;
    /// What a stream says of an answer that failed.
    fn failed(&mut self, refusal: &Refusal) -> Value {
        refusal.json()
    }
    /// All of it.
    fn whole(self) -> Value;
}

/// How the values of a stream are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// As events without names.
    Data,
    /// As events that are named by the value's `type`.
    Named,
    /// Each on a line.
    Lines,
}

/// A value on its way out.
struct Sending {
    name: Option<String>,
    data: String,
}

/// What an answer's trace is called.
const TRACE_ID: HeaderName = HeaderName::from_static("x-trace-id");

/// How long a stream is silent before a comment shows that it is alive.
const SILENCE: Duration = Duration::from_secs(10);

impl Answers {
    /// The answers to as many prompts.
    pub fn new(
        events: mpsc::Receiver<(usize, Event)>,
        count: usize,
        held: Arc<Held>,
        trace: Option<Arc<Trace>>,
    ) -> Answers {
        let counts = Arc::new(Counts::of_answers(&held.name));
        Answers { events, open: count, trace, counts, _held: held }
    }

    /// The next event; `None` after the last end.
    async fn next(&mut self) -> Result<Option<(usize, Event)>, Refusal> {
        if self.open == 0 {
            return Ok(None);
        }
        match self.events.recv().await {
            Some((_, Event::Failed(error))) => Err(error.into()),
            Some(event) => {
                self.trace.iter().for_each(|trace| trace.note(event.0, &event.1));
                self.counts.note(&event.1);
                self.open -= usize::from(matches!(event.1, Event::Done(_)));
                Ok(Some(event))
            }
            None => Err(Refusal::failed("the model has failed")),
        }
    }

    /// All answers, as a stream of events or as one body.
    ///
    /// # Errors
    /// If an answer fails before anything was sent.
    pub async fn respond(mut self, mut form: impl Form, streamed: bool) -> Result<Response, Refusal> {
        let counts = self.counts.clone();
        let id = self.trace.as_ref().and_then(|trace| HeaderValue::from_str(trace.id()).ok());
        let mut response = if streamed {
            self.stream(form)
        } else {
            form.begin();
            while let Some(event) = self.next().await? {
                take(&mut form, event);
            }
            form.done();
            Json(form.whole()).into_response()
        };
        response.headers_mut().extend(id.map(|id| (TRACE_ID, id)));
        Ok(counts.noted(response))
    }

    fn stream<F: Form>(self, mut form: F) -> Response {
        let ready = form.begin().iter().map(Sending::of::<F>).collect();
        let state = Streaming { answers: Some(self), form, ready };
        let values = stream::unfold(state, |mut state| async { Some((state.next().await?, state)) });
        if F::FRAMING == Framing::Lines {
            let lines = values.map(|sending| Ok::<_, Infallible>(sending.data + "\n"));
            return ([(header::CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(lines)).into_response();
        }
        let events = values.map(|Sending { name, data }| {
            let event = Sent::default().data(data);
            Ok::<_, Infallible>(name.into_iter().fold(event, Sent::event))
        });
        Sse::new(events).keep_alive(KeepAlive::new().interval(SILENCE)).into_response()
    }
}

/// A stream, and what it sends next.
struct Streaming<F> {
    answers: Option<Answers>,
    form: F,
    ready: VecDeque<Sending>,
}

impl Sending {
    fn of<F: Form>(value: &Value) -> Sending {
        let name = value["type"].as_str().filter(|_| F::FRAMING == Framing::Named).map(str::to_owned);
        Sending { name, data: value.to_string() }
    }
}

impl<F: Form> Streaming<F> {
    async fn next(&mut self) -> Option<Sending> {
        loop {
            if let Some(sending) = self.ready.pop_front() {
                return Some(sending);
            }
            let values = match self.answers.as_mut()?.next().await {
                Ok(Some(event)) => take(&mut self.form, event),
                Ok(None) => {
                    self.answers = None;
                    self.form.done()
                }
                Err(refusal) => {
                    self.answers = None;
                    self.ready.push_back(Sending::of::<F>(&self.form.failed(&refusal)));
                    continue;
                }
            };
            self.ready.extend(values.iter().map(Sending::of::<F>));
            if self.answers.is_none() {
                self.ready.extend(F::LAST.map(|last| Sending { name: None, data: last.to_owned() }));
            }
        }
    }
}

fn take(form: &mut impl Form, (index, event): (usize, Event)) -> Vec<Value> {
    match event {
        Event::Begun { reused } => form.begun(index, reused),
        Event::Read { done, .. } => form.read(index, done),
        Event::Piece(piece) => form.piece(index, &piece),
        Event::Done(finish) => form.end(index, &finish),
        _ => Vec::new(),
    }
}
