//! The shape in which a template takes an answer with calls: templates differ in what they do with arguments that are text
//! and with content that is missing.

use serde_json::{Map, Value, json};

use super::part::Part;
use crate::chat::message::Message;

/// How arguments are handed to a template.
#[derive(Clone, Copy, Debug)]
enum Arguments {
    Map,
    Text,
}

/// What content an answer of nothing but calls has.
#[derive(Clone, Copy, Debug)]
enum Missing {
    Empty,
    Null,
}

/// The shape of an answer with calls.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    arguments: Arguments,
    missing: Missing,
}

impl Style {
    /// What most templates take.
    pub const OPENAI: Style = Style { arguments: Arguments::Map, missing: Missing::Empty };

    /// The name of an answer's first call that has none.
    pub const FIRST_ID: &'static str = "call00000";

    /// All, the usual ones first.
    pub const ALL: [Style; 4] = [
        Style::OPENAI,
        Style { arguments: Arguments::Map, missing: Missing::Null },
        Style { arguments: Arguments::Text, missing: Missing::Empty },
        Style { arguments: Arguments::Text, missing: Missing::Null },
    ];

    /// The message of an answer.
    pub fn message(self, parts: &[Part]) -> Message {
        let (mut content, mut reasoning, mut calls) = (String::new(), String::new(), Vec::new());
        for part in parts {
            match part {
                Part::Content(text) => content.push_str(text),
                Part::Reasoning(text) => reasoning.push_str(text),
                Part::Call(call) => {
                    // Nine letters and digits, which is what Mistral's templates ask for.
                    let id = call.id.clone().unwrap_or_else(|| format!("call{:05}", calls.len()));
                    let function = json!({"name": call.name, "arguments": self.arguments(&call.arguments)});
                    calls.push(json!({"id": id, "type": "function", "function": function}));
                }
            }
        }
        let is_null = content.is_empty() && !calls.is_empty() && matches!(self.missing, Missing::Null);
        let mut message = Message::assistant(content);
        if is_null {
            message.0.insert("content".to_owned(), Value::Null);
        }
        if !reasoning.is_empty() {
            // The names that templates look for, each one of them.
            for name in ["reasoning_content", "reasoning", "thinking"] {
                message.0.insert(name.to_owned(), reasoning.as_str().into());
            }
        }
        if !calls.is_empty() {
            message.0.insert("tool_calls".to_owned(), calls.into());
        }
        message
    }

    fn arguments(self, arguments: &Map<String, Value>) -> Value {
        match self.arguments {
            Arguments::Map => Value::Object(arguments.clone()),
            Arguments::Text => Value::String(Value::Object(arguments.clone()).to_string()),
        }
    }
}
