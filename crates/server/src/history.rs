//! A conversation's messages as templates take them, out of forms that have them in pieces.

use candor::Message;
use serde_json::{Map, Value, json};

/// Messages so far.
#[derive(Default)]
pub struct History(Vec<Message>);

impl History {
    /// The messages.
    pub fn messages(self) -> Vec<Message> {
        self.0
    }

    /// A message, or more of what the model said last.
    pub fn say(&mut self, role: &str, text: &str) {
        if role != "assistant" {
            return self.0.push(Message::new(role, text));
        }
        let Message(fields) = self.answer();
        match fields.get_mut("content") {
            Some(Value::String(said)) if !said.is_empty() => *said = format!("{said}\n{text}"),
            _ => _ = fields.insert("content".to_owned(), text.into()),
        }
    }

    /// What the model thought.
    pub fn reason(&mut self, text: &str) {
        let Message(fields) = self.answer();
        match fields.get_mut("reasoning_content") {
            Some(Value::String(thought)) => *thought = format!("{thought}\n{text}"),
            _ => _ = fields.insert("reasoning_content".to_owned(), text.into()),
        }
    }

    /// A tool that the model called.
    pub fn call(&mut self, id: &str, name: &str, arguments: Map<String, Value>) {
        let function = json!({ "name": name, "arguments": arguments });
        let call = json!({ "id": id, "type": "function", "function": function });
        let Message(fields) = self.answer();
        match fields.get_mut("tool_calls") {
            Some(Value::Array(calls)) => calls.push(call),
            _ => _ = fields.insert("tool_calls".to_owned(), json!([call])),
        }
    }

    /// What a tool gave.
    pub fn result(&mut self, id: &str, text: &str) {
        let mut message = Message::new("tool", text);
        message.0.insert("tool_call_id".to_owned(), id.into());
        // Some templates name the tool instead.
        let called = self.0.iter().filter_map(|Message(fields)| fields.get("tool_calls")?.as_array()).flatten();
        if let Some(call) = called.into_iter().find(|call| call["id"] == id) {
            message.0.insert("name".to_owned(), call["function"]["name"].clone());
        }
        self.0.push(message);
    }

    /// The answer that is put together.
    fn answer(&mut self) -> &mut Message {
        if self.0.last().is_none_or(|last| last.role() != "assistant") {
            self.0.push(Message::assistant(""));
        }
        let last = self.0.len() - 1;
        &mut self.0[last]
    }
}
