//! Splitting what a model says into reasoning, content and tool calls while it comes. What may be the beginning of a mark is
//! held back, and so is white space that a mark may follow.

use serde_json::Value;

use super::call;
use super::formats::{Body, CallFormat, ReasoningFormat};
use super::harmony::Harmony;
use super::hold::{held_back, split_at_first};
use super::part::Part;

/// Reads one answer, piece by piece. Made by [`AnswerFormat::parser`](super::AnswerFormat::parser).
///
/// A block that is marked as a call and is not one comes as content, with its marks.
#[derive(Clone, Debug)]
pub struct AnswerParser {
    reader: Reader,
}

#[derive(Clone, Debug)]
enum Reader {
    Marks(Marks),
    Harmony(Harmony),
}

impl AnswerParser {
    pub(super) fn harmony() -> AnswerParser {
        AnswerParser { reader: Reader::Harmony(Harmony::new()) }
    }

    pub(super) fn marks(marks: Marks) -> AnswerParser {
        AnswerParser { reader: Reader::Marks(marks) }
    }

    /// Takes the next piece of text, in which control tokens are shown ([`Show::Specials`](crate::Show)), and gives what is certain by now.
    pub fn push(&mut self, text: &str) -> Vec<Part> {
        let mut out = Vec::new();
        match &mut self.reader {
            Reader::Marks(marks) => {
                marks.held.push_str(text);
                while marks.step(Ended::No, &mut out) {}
            }
            Reader::Harmony(harmony) => harmony.push(text, &mut out),
        }
        out
    }

    /// Gives what was held back, when the answer has ended.
    pub fn finish(self) -> Vec<Part> {
        let mut out = Vec::new();
        match self.reader {
            Reader::Marks(mut marks) => while marks.step(Ended::Yes, &mut out) {},
            Reader::Harmony(harmony) => harmony.finish(&mut out),
        }
        out
    }
}

/// Whether the answer has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    No,
    Yes,
}

/// The state of an answer with marks.
#[derive(Clone, Debug)]
pub(super) struct Marks {
    pub reasoning: Option<&'static ReasoningFormat>,
    /// `None` where no tools were offered, so that nothing is a call.
    pub calls: Option<&'static CallFormat>,
    /// What the tools' definitions say.
    pub tools: Option<Value>,
    pub state: State,
    pub held: String,
}

/// Where in an answer it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Before anything; reasoning may be opened.
    Start,
    /// Reasoning that has not said anything yet.
    Opened,
    Reasoning,
    /// Before the content, after reasoning.
    Closed,
    /// Before the content, where no reasoning was.
    Unopened,
    Content,
    /// After calls.
    Called,
    /// In a block of calls, of which this many bytes hold no end of it.
    Calls {
        searched: usize,
    },
}

impl Marks {
    /// Takes what can be decided; whether there may be more.
    fn step(&mut self, ended: Ended, out: &mut Vec<Part>) -> bool {
        match self.state {
            State::Start => self.start(ended),
            State::Opened | State::Reasoning => self.reason(ended, out),
            State::Closed | State::Unopened => self.begin(ended),
            State::Content | State::Called => self.content(ended, out),
            State::Calls { searched } => self.call(searched, ended, out),
        }
    }

    fn go(&mut self, state: State) -> bool {
        self.state = state;
        true
    }

    fn start(&mut self, ended: Ended) -> bool {
        let Some(format) = self.reasoning else { return self.go(State::Unopened) };
        let begun = self.held.trim_start();
        if let Some(rest) = begun.strip_prefix(format.open) {
            self.held = rest.to_owned();
            return self.go(State::Opened);
        }
        let undecided = ended == Ended::No && format.open.starts_with(begun);
        !undecided && self.go(State::Unopened)
    }

    fn reason(&mut self, ended: Ended, out: &mut Vec<Part>) -> bool {
        let Some(format) = self.reasoning else { return self.go(State::Content) };
        if self.state == State::Opened {
            let begun = self.held.trim_start();
            let begun = begun.strip_prefix(format.open).unwrap_or(begun).trim_start();
            if ended == Ended::No && (begun.is_empty() || format.open.starts_with(begun)) {
                return false;
            }
            self.held = begun.to_owned();
            return self.go(State::Reasoning);
        }
        if let Some((at, mark)) = split_at_first(&self.held, &[format.close]) {
            Part::reasoning(self.held[..at].trim_end(), out);
            self.held.drain(..at + mark.len());
            return self.go(State::Closed);
        }
        let kept = if ended == Ended::Yes { 0 } else { held_back(&self.held, &[format.close]) };
        let ready = self.held[..self.held.len() - kept].trim_end().len();
        Part::reasoning(&self.held[..ready], out);
        self.held.drain(..ready);
        false
    }

    fn begin(&mut self, ended: Ended) -> bool {
        let begun = self.held.trim_start();
        if begun.is_empty() && ended == Ended::No {
            return false;
        }
        let space = self.held.len() - begun.len();
        let whole = self.calls.filter(|calls| matches!(calls.body, Body::Whole { .. }));
        let is_call = whole.is_some_and(|calls| begun.starts_with(calls.open));
        if self.state == State::Closed {
            self.held.drain(..space);
        }
        self.go(if is_call { State::Calls { searched: 0 } } else { State::Content })
    }

    fn content(&mut self, ended: Ended, out: &mut Vec<Part>) -> bool {
        let calls = self.calls.filter(|calls| !matches!(calls.body, Body::Whole { .. }));
        let around = self.reasoning.map_or(&[][..], |format| format.around);
        let marks: Vec<&str> = calls.map(|calls| calls.open).into_iter().chain(around.iter().copied()).collect();
        if let Some((at, mark)) = split_at_first(&self.held, &marks) {
            let is_call = calls.is_some_and(|calls| calls.open == mark);
            // The white space in front is the call's, and is content again if it turns out to be none.
            let said = if is_call { self.held[..at].trim_end().len() } else { at };
            Part::content(&self.held[..said], out);
            self.held.drain(..if is_call { said } else { at + mark.len() });
            return self.go(if is_call { State::Calls { searched: 0 } } else { State::Content });
        }
        if ended == Ended::Yes {
            if self.state != State::Called || !self.held.trim().is_empty() {
                Part::content(&self.held, out);
            }
            self.held.clear();
            return false;
        }
        let kept = held_back(&self.held, &marks);
        let mut ready = self.held.len() - kept;
        if calls.is_some() {
            ready = self.held[..ready].trim_end().len();
        }
        if ready > 0 {
            Part::content(&self.held[..ready], out);
            self.held.drain(..ready);
            self.state = State::Content;
        }
        false
    }

    fn call(&mut self, mut searched: usize, ended: Ended, out: &mut Vec<Part>) -> bool {
        let Some(format) = self.calls else { return self.go(State::Content) };
        while let Some(found) = (!format.close.is_empty()).then(|| self.held[searched..].find(format.close)).flatten() {
            let at = searched + found;
            let end = at + format.close.len();
            if self.take_calls(format, at, out) {
                self.held.drain(..end);
                return self.go(State::Called);
            }
            searched = end;
        }
        if ended == Ended::Yes {
            if !self.take_calls(format, self.held.len(), out) {
                Part::content(&self.held, out);
            }
            self.held.clear();
            return false;
        }
        // The beginning of an end may be there already.
        let kept = held_back(&self.held, &[format.close]);
        self.state = State::Calls { searched: searched.max(self.held.len() - kept) };
        false
    }

    /// Gives the calls in the block's first `len` bytes; whether they are nothing but calls.
    fn take_calls(&self, format: &CallFormat, len: usize, out: &mut Vec<Part>) -> bool {
        match call::read(format, self.held[..len].trim_start(), self.tools.as_ref()) {
            Some((calls, rest)) if rest.trim().is_empty() => {
                out.extend(calls.into_iter().map(Part::Call));
                true
            }
            _ => false,
        }
    }
}
