//! Which tools an answer has to call.

use candor::CallPart;
use candor_grammar::{Grammar, Part};
use serde_json::{Value, json};

use crate::{fields::expected, refusal::Refusal};

/// Which tools an answer has to call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Calls {
    /// None, or any.
    #[default]
    Free,
    /// One of them.
    One,
    /// The one of this name.
    Named(String),
}

impl Calls {
    /// What OpenAI's `tool_choice` says, `null` where nothing does: the tools that are offered, and which have to be called.
    /// `function` is where it has the name of one.
    ///
    /// # Errors
    /// If it is not served, or asks for what is not offered.
    pub fn of(choice: Option<Value>, function: &str, tools: Option<Value>) -> Result<(Option<Value>, Calls), Refusal> {
        let choice = choice.unwrap_or_else(|| "auto".into());
        let calls = match (choice.as_str(), choice.pointer(function).and_then(Value::as_str)) {
            (Some("auto"), _) => return Ok((tools, Calls::Free)),
            (Some("none"), _) => return Ok((None, Calls::Free)),
            (Some("required"), _) => Calls::One,
            (None, Some(name)) if choice["type"] == "function" => Calls::Named(name.to_owned()),
            _ => return Err(expected("tool_choice", "auto, none, required or a function", &choice)),
        };
        calls.among(tools)
    }

    /// The tools, of which it has to be one.
    ///
    /// # Errors
    /// If there is no such tool.
    pub fn among(self, tools: Option<Value>) -> Result<(Option<Value>, Calls), Refusal> {
        let names = || tools.iter().flat_map(functions).map(|(_, function)| &function["name"]);
        let is_there = match &self {
            Calls::Free => true,
            Calls::One => names().next().is_some(),
            Calls::Named(asked) => names().any(|name| name == asked.as_str()),
        };
        match is_there {
            true => Ok((tools, self)),
            false => Err(Refusal::field("tool_choice", "there is no such tool")),
        }
    }

    /// The grammar of an answer that is such a call, which has these parts.
    ///
    /// # Errors
    /// If they are not known, or the schema of arguments is not served.
    pub fn grammar(&self, tools: Option<&Value>, parts: Option<&[CallPart]>) -> Result<Grammar, Refusal> {
        let unknown = || {
            let message = "the chat template calls tools in a way that no grammar is known for: \"auto\" is served";
            Refusal::unsupported("tool_choice", message)
        };
        let parts = parts.ok_or_else(unknown)?;
        let mut all = Vec::new();
        for (n, function) in tools.iter().flat_map(|tools| functions(tools)) {
            let name = function["name"].as_str().unwrap_or_default();
            if matches!(self, Calls::Named(other) if other != name) {
                continue;
            }
            let schema = match &function["parameters"] {
                Value::Null => json!({ "type": "object" }),
                Value::Object(schema) if !schema.contains_key("type") => {
                    let mut schema = schema.clone();
                    schema.insert("type".to_owned(), "object".into());
                    schema.into()
                }
                schema => schema.clone(),
            };
            let wrong = |error: candor_grammar::Error| {
                Refusal::field(&format!("tools[{n}].function.parameters"), error.to_string())
            };
            // Alone, so that an error is of this one.
            Grammar::json_schema(&schema).map_err(wrong)?;
            // The template writes the name within a JSON text, or where it has no quotes.
            let quoted = Value::from(name).to_string();
            let part = |part: &CallPart| match part {
                CallPart::Text(text) => Part::Text(text.clone()),
                CallPart::Name => Part::Text(quoted[1..quoted.len() - 1].to_owned()),
                CallPart::Arguments => Part::Json(schema.clone()),
                CallPart::Id(length) => Part::Pattern(format!("[a-zA-Z0-9]{{{length}}}")),
            };
            all.push(parts.iter().map(part).collect());
        }
        Grammar::one_of(&all).map_err(|error| Refusal::field("tool_choice", error.to_string()))
    }
}

/// The functions of tools, with their numbers.
fn functions(tools: &Value) -> impl Iterator<Item = (usize, &Value)> {
    tools.as_array().into_iter().flatten().map(|tool| &tool["function"]).enumerate()
}
