//! The parts of an answer: content, reasoning, tool calls.

use serde_json::{Map, Value};

/// A piece of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// What the user reads.
    Content(String),
    /// What the model thinks before it says something.
    Reasoning(String),
    /// A tool that the model wants to be called.
    Call(ToolCall),
}

impl Part {
    pub(super) fn content(text: &str, out: &mut Vec<Part>) {
        if !text.is_empty() {
            out.push(Part::Content(text.to_owned()));
        }
    }

    pub(super) fn reasoning(text: &str, out: &mut Vec<Part>) {
        if !text.is_empty() {
            out.push(Part::Reasoning(text.to_owned()));
        }
    }
}

/// A call of a tool, as the model wants it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// The tool's name.
    pub name: String,
    /// Its arguments by name.
    pub arguments: Map<String, Value>,
    /// The model's own name for the call, where its family has one.
    pub id: Option<String>,
}

/// Calls, and what follows them.
pub(super) type Read<'t> = Option<(Vec<ToolCall>, &'t str)>;
