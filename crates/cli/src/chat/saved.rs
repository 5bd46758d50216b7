//! A conversation in a file: JSON with the messages, the system prompt and the settings that may change.

use std::{collections::BTreeMap, fs, path::Path};

use candor::{AnswerPart, Message, ToolCall};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, error::Category};

use crate::{errors::Error, template::Template};

/// The file of `/save` and `/load` without a name.
pub const DEFAULT_FILE: &str = "candor-chat.json";

/// A conversation in a file.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Saved {
    /// The version of the program that wrote it.
    pub candor: String,
    /// The model that answered.
    pub model: String,
    /// The system prompt.
    #[serde(default)]
    pub system: Option<String>,
    /// What was said.
    pub messages: Vec<Turn>,
    /// Values by the long names of flags.
    #[serde(default)]
    pub settings: BTreeMap<String, Vec<String>>,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// Who said it.
    pub role: Role,
    /// What was said.
    pub content: String,
    /// What the model thought before it said that.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reasoning_content: String,
    /// The tools that the model called.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<Call>,
}

/// A tool call, in OpenAI's shape, with its arguments as an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// Its name in the conversation.
    pub id: String,
    /// The tool and its arguments.
    pub function: Function,
}

/// What is called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Function {
    /// The tool.
    pub name: String,
    /// Its arguments by name.
    pub arguments: Map<String, Value>,
}

/// Who says something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The person.
    User,
    /// The model.
    Assistant,
}

impl Turn {
    /// What the person says.
    pub fn user(content: &str) -> Turn {
        Turn { role: Role::User, content: content.to_owned(), reasoning_content: String::new(), tool_calls: Vec::new() }
    }

    /// What the model answered. Calls without an id get one that no call `before` has.
    pub fn answer(parts: Vec<AnswerPart>, before: &[Turn]) -> Turn {
        let mut turn = Turn { role: Role::Assistant, ..Turn::user("") };
        let called: usize = before.iter().map(|turn| turn.tool_calls.len()).sum();
        for part in parts {
            match part {
                AnswerPart::Content(text) => turn.content.push_str(&text),
                AnswerPart::Reasoning(text) => turn.reasoning_content.push_str(&text),
                AnswerPart::Call(ToolCall { name, arguments, id }) => {
                    // Nine letters and digits, which is what Mistral's templates ask for.
                    let id = id.unwrap_or_else(|| format!("call{:05}", called + turn.tool_calls.len()));
                    turn.tool_calls.push(Call { id, function: Function { name, arguments } });
                }
            }
        }
        turn
    }

    /// The library's message, as `template` takes it.
    pub fn message(&self, template: &Template) -> Message {
        if self.role == Role::User {
            return Message::user(&self.content);
        }
        let mut parts = vec![AnswerPart::Reasoning(self.reasoning_content.clone())];
        parts.push(AnswerPart::Content(self.content.clone()));
        parts.extend(self.tool_calls.iter().cloned().map(|Call { id, function: Function { name, arguments } }| {
            AnswerPart::Call(ToolCall { name, arguments, id: Some(id) })
        }));
        template.message(&parts)
    }
}

impl Saved {
    /// Writes the file.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        let mut text = serde_json::to_string_pretty(self).map_err(|error| Error::Output(error.into()))?;
        text.push('\n');
        fs::write(path, text).map_err(|error| Error::File { path: path.to_owned(), error })
    }

    /// Reads the file.
    pub fn read(path: &Path) -> Result<Saved, Error> {
        let text = fs::read(path).map_err(|error| Error::File { path: path.to_owned(), error })?;
        serde_json::from_slice(&text)
            .map_err(|error| Error::NotSaved { path: path.to_owned(), got: got(&text, &error) })
    }
}

/// What a file is that is no saved conversation. JSON may be one that was edited: its fault is said.
fn got(bytes: &[u8], error: &serde_json::Error) -> String {
    match (bytes.trim_ascii_start().first(), error.classify()) {
        (None, _) => "an empty file".to_owned(),
        (Some(b'{'), Category::Data) => format!("other JSON: {error}"),
        (Some(b'{'), _) => format!("broken JSON: {error}"),
        _ => "something else".to_owned(),
    }
}
