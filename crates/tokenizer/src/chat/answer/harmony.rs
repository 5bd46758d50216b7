//! GPT-OSS's answers: messages with a header each (`<|channel|>analysis<|message|>`), of which those in the channel `analysis` are
//! reasoning, and those to `functions.NAME` calls.

use std::borrow::Cow;

use serde_json::Value;

use super::call::first_value;
use super::hold::{held_back, split_at_first};
use super::part::{Part, ToolCall};

/// All that it looks for.
pub(super) const MARKS: &[&str] =
    &["<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|end|>", "<|call|>", "<|return|>"];

pub(super) const MESSAGE: &str = "<|message|>";
pub(super) const CHANNEL: &str = "<|channel|>";
const ENDS: [&str; 4] = ["<|end|>", "<|call|>", "<|return|>", "<|start|>"];
/// What is between two messages of a kind.
const PARAGRAPH: &str = "\n\n";
/// What a header can begin with.
const HEADERS: [&str; 4] = ["<|start|>", CHANNEL, MESSAGE, "to="];

/// The state of reading an answer.
#[derive(Clone, Debug)]
pub(super) struct Harmony {
    held: String,
    state: State,
    said: Said,
}

/// What was said in messages before this one and in it: the next message of its kind begins a paragraph.
#[derive(Clone, Copy, Debug, Default)]
struct Said {
    reasoning: bool,
    content: bool,
    /// Whether this message has said something.
    here: bool,
}

#[derive(Clone, Debug)]
enum State {
    Header,
    Body(To),
    /// No header came: everything is content.
    Plain,
}

/// What a message is.
#[derive(Clone, Debug)]
enum To {
    Reasoning,
    Content,
    Tool { header: String, name: String },
}

impl Harmony {
    pub fn new() -> Harmony {
        Harmony { held: String::new(), state: State::Header, said: Said::default() }
    }

    pub fn push(&mut self, text: &str, out: &mut Vec<Part>) {
        self.held.push_str(text);
        while self.step(out) {}
    }

    /// Takes what can be decided now; whether there may be more.
    fn step(&mut self, out: &mut Vec<Part>) -> bool {
        match &self.state {
            State::Header => {
                let begun = self.held.trim_start();
                if !HEADERS.iter().any(|mark| begun.starts_with(mark) || mark.starts_with(begun)) {
                    self.state = State::Plain;
                    return true;
                }
                let Some(at) = self.held.find(MESSAGE) else { return false };
                let to = recipient(&self.held[..at]);
                self.held.drain(..at + MESSAGE.len());
                self.said.here = false;
                self.state = State::Body(to);
                true
            }
            State::Body(to) => match split_at_first(&self.held, &ENDS) {
                Some((at, mark)) => {
                    let body = self.held[..at].to_owned();
                    end(to, &mut self.said, &body, out);
                    self.held.drain(..at + if mark == "<|start|>" { 0 } else { mark.len() });
                    self.state = State::Header;
                    true
                }
                None => {
                    let ready = self.held.len() - held_back(&self.held, &ENDS);
                    if ready > 0 && !matches!(to, To::Tool { .. }) {
                        let text: String = self.held.drain(..ready).collect();
                        end(to, &mut self.said, &text, out);
                    }
                    false
                }
            },
            State::Plain => {
                Part::content(&std::mem::take(&mut self.held), out);
                false
            }
        }
    }

    pub fn finish(mut self, out: &mut Vec<Part>) {
        match self.state {
            State::Body(to) => end(&to, &mut self.said, &self.held, out),
            // A header that nothing follows says nothing.
            State::Header if self.held.trim_start().starts_with("<|") => {}
            _ => Part::content(&std::mem::take(&mut self.held), out),
        }
    }
}

/// What a header says of its message.
fn recipient(header: &str) -> To {
    let word = |mark: &str| {
        let rest = header.split_once(mark)?.1;
        Some(&rest[..rest.find(|c: char| c.is_whitespace() || c == '<').unwrap_or(rest.len())])
    };
    match (word("to=").and_then(|to| to.strip_prefix("functions.")), word(CHANNEL)) {
        (Some(name), _) => To::Tool { header: header.to_owned(), name: name.to_owned() },
        (None, Some("analysis")) => To::Reasoning,
        _ => To::Content,
    }
}

/// Gives a message, or a part of one.
fn end(to: &To, said: &mut Said, text: &str, out: &mut Vec<Part>) {
    match to {
        To::Reasoning => Part::reasoning(&said.paragraph(|said| &mut said.reasoning, text), out),
        To::Content => Part::content(&said.paragraph(|said| &mut said.content, text), out),
        To::Tool { header, name } => match first_value(text) {
            Some((Value::Object(arguments), rest)) if rest.trim().is_empty() => {
                out.push(Part::Call(ToolCall { name: name.clone(), arguments, id: None }));
            }
            _ => Part::content(&format!("{header}{MESSAGE}{text}"), out),
        },
    }
}

impl Said {
    /// A piece of a message, after an empty line where it begins one and another of its kind came before.
    fn paragraph<'t>(&mut self, before: impl Fn(&mut Said) -> &mut bool, text: &'t str) -> Cow<'t, str> {
        if text.is_empty() || std::mem::replace(&mut self.here, true) {
            return text.into();
        }
        match std::mem::replace(before(self), true) {
            true => format!("{PARAGRAPH}{text}").into(),
            false => text.into(),
        }
    }
}
