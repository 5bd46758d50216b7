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
    /// Values by the long names of flags: those that are not the program's own.
    #[serde(default)]
    pub settings: BTreeMap<String, Value>,
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

/// A setting's values as they are plainest: a number or `true` where there is one that is written so, a list where there are
/// several.
pub fn plain(values: &[String]) -> Value {
    let one = |text: &String| match serde_json::from_str(text) {
        Ok(value @ (Value::Number(_) | Value::Bool(_))) if value.to_string().as_str() == text.as_str() => value,
        _ => Value::String(text.clone()),
    };
    match values {
        [value] => one(value),
        values => values.iter().map(one).collect(),
    }
}

/// The values of a setting, one or a list of them; `None` if it is neither.
pub fn values(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::String(text) => Some(vec![text.clone()]),
        Value::Number(_) | Value::Bool(_) => Some(vec![value.to_string()]),
        Value::Array(values) => {
            let lists = values.iter().map(|value| if value.is_array() { None } else { self::values(value) });
            Some(lists.collect::<Option<Vec<_>>>()?.concat())
        }
        Value::Null | Value::Object(_) => None,
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_are_plain_and_come_back() {
        for (texts, value) in [
            (vec!["5"], json!(5)),
            (vec!["0.25"], json!(0.25)),
            (vec!["true"], json!(true)),
            (vec!["007"], json!("007")),
            (vec!["null"], json!("null")),
            (vec!["User:"], json!("User:")),
            (vec!["a", "1"], json!(["a", 1])),
            (vec![], json!([])),
        ] {
            let texts: Vec<String> = texts.into_iter().map(str::to_owned).collect();
            assert_eq!(plain(&texts), value);
            assert_eq!(values(&value), Some(texts));
        }
        // As they were written before.
        assert_eq!(values(&json!(["5"])), Some(vec!["5".to_owned()]));
        for wrong in [json!(null), json!({}), json!([[1]]), json!([null])] {
            assert_eq!(values(&wrong), None, "{wrong}");
        }
    }
}
