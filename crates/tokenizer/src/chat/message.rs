//! The messages of a conversation.

use serde::{Deserialize, Serialize};
use serde_json::Map;

/// One message of a conversation: at least `role`, mostly `content`, and whatever else templates look for
/// (`tool_calls`, `reasoning_content`...), in order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Message(pub Map<String, serde_json::Value>);

impl Message {
    /// A message of `role` that says `content`.
    pub fn new(role: &str, content: impl Into<String>) -> Message {
        let mut fields = Map::new();
        fields.insert("role".to_owned(), role.into());
        fields.insert("content".to_owned(), content.into().into());
        Message(fields)
    }

    /// What the user says.
    pub fn user(content: impl Into<String>) -> Message {
        Message::new("user", content)
    }

    /// What the model learns about its task.
    pub fn system(content: impl Into<String>) -> Message {
        Message::new("system", content)
    }

    /// What the model answered.
    pub fn assistant(content: impl Into<String>) -> Message {
        Message::new("assistant", content)
    }

    /// The message's `role`, empty where it has none.
    pub fn role(&self) -> &str {
        self.0.get("role").and_then(serde_json::Value::as_str).unwrap_or_default()
    }

    /// The message's `content` where it is a text.
    pub fn text(&self) -> Option<&str> {
        self.0.get("content")?.as_str()
    }
}
