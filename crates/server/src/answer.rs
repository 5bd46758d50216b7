//! The answers of a request on their way out: as one body, or piece by piece. Both are made of the same parts.

use std::{collections::VecDeque, convert::Infallible, time::Duration};

use axum::{
    Json,
    response::{
        IntoResponse, Response, Sse,
        sse::{Event as Sent, KeepAlive},
    },
};
use candor::{Event, Finish, Piece};
use futures_util::stream;
use serde_json::Value;
use tokio::sync::mpsc;

use crate::{app::Running, refusal::Refusal};

/// The answers to the prompts of a request. Where it is dropped they are cancelled.
pub struct Answers {
    events: mpsc::Receiver<(usize, Event)>,
    /// Those that have not ended.
    open: usize,
    _running: Running,
}

/// What an endpoint makes of answers. Each call returns the values that a stream sends then.
pub trait Form: Send + 'static {
    /// Before all answers.
    fn begin(&mut self) -> Vec<Value>;
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
    /// All of it.
    fn whole(self) -> Value;
}

/// How long a stream is silent before a comment shows that it is alive.
const SILENCE: Duration = Duration::from_secs(10);

impl Answers {
    /// The answers to as many prompts.
    pub fn new(events: mpsc::Receiver<(usize, Event)>, count: usize, running: Running) -> Answers {
        Answers { events, open: count, _running: running }
    }

    /// The next event; `None` after the last end.
    async fn next(&mut self) -> Result<Option<(usize, Event)>, Refusal> {
        if self.open == 0 {
            return Ok(None);
        }
        match self.events.recv().await {
            Some((_, Event::Failed(error))) => Err(error.into()),
            Some(event) => {
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
        if streamed {
            return Ok(self.stream(form));
        }
        form.begin();
        while let Some(event) = self.next().await? {
            take(&mut form, event);
        }
        form.done();
        Ok(Json(form.whole()).into_response())
    }

    fn stream<F: Form>(self, mut form: F) -> Response {
        let ready: VecDeque<String> = form.begin().iter().map(Value::to_string).collect();
        let state = Streaming { answers: Some(self), form, ready };
        let events = stream::unfold(state, |mut state| async {
            let data = state.next().await?;
            Some((Ok::<_, Infallible>(Sent::default().data(data)), state))
        });
        Sse::new(events).keep_alive(KeepAlive::new().interval(SILENCE)).into_response()
    }
}

/// A stream, and what it sends next.
struct Streaming<F> {
    answers: Option<Answers>,
    form: F,
    ready: VecDeque<String>,
}

impl<F: Form> Streaming<F> {
    async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(data) = self.ready.pop_front() {
                return Some(data);
            }
            let values = match self.answers.as_mut()?.next().await {
                Ok(Some(event)) => take(&mut self.form, event),
                Ok(None) => {
                    self.answers = None;
                    self.form.done()
                }
                Err(refusal) => {
                    self.answers = None;
                    self.ready.push_back(refusal.json().to_string());
                    continue;
                }
            };
            self.ready.extend(values.iter().map(Value::to_string));
            if self.answers.is_none() {
                self.ready.extend(F::LAST.map(str::to_owned));
            }
        }
    }
}

fn take(form: &mut impl Form, (index, event): (usize, Event)) -> Vec<Value> {
    match event {
        Event::Read { done, .. } => form.read(index, done),
        Event::Piece(piece) => form.piece(index, &piece),
        Event::Done(finish) => form.end(index, &finish),
        _ => Vec::new(),
    }
}
