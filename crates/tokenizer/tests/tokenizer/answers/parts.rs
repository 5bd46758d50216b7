//! Parsing a text in every way, and the parts that are expected of it.

use candor_tokenizer::{AnswerFormat, Part, ToolCall};
use serde_json::{Value, json};

/// Adjacent texts of one kind joined.
pub fn joined(parts: Vec<Part>) -> Vec<Part> {
    let mut all: Vec<Part> = Vec::new();
    for part in parts {
        match (all.last_mut(), part) {
            (Some(Part::Content(said)), Part::Content(more)) => said.push_str(&more),
            (Some(Part::Reasoning(said)), Part::Reasoning(more)) => said.push_str(&more),
            (_, part) => all.push(part),
        }
    }
    all
}

/// The parts of an answer, the same however it is split.
pub fn parse(format: &AnswerFormat, prompt: &str, tools: Option<&Value>, answer: &str) -> Vec<Part> {
    let read = |pieces: &[&str]| {
        let mut parser = format.parser(prompt, tools);
        let mut parts: Vec<Part> = pieces.iter().flat_map(|piece| parser.push(piece)).collect();
        parts.extend(parser.finish());
        joined(parts)
    };
    let whole = read(&[answer]);
    for (cut, _) in answer.char_indices() {
        assert_eq!(read(&[&answer[..cut], &answer[cut..]]), whole, "cut at {cut}: {answer:?}");
    }
    let single: Vec<String> = answer.chars().map(String::from).collect();
    assert_eq!(read(&single.iter().map(String::as_str).collect::<Vec<_>>()), whole, "{answer:?}");
    whole
}

/// Tools with a plain parameter or two, and with more besides.
pub fn tools(more: Option<Value>) -> Value {
    let mut properties = json!({"city": {"type": "string", "description": "The city"},
        "days": {"type": "integer", "description": "How many days"}});
    properties.as_object_mut().unwrap().extend(more.and_then(|more| more.as_object().cloned()).unwrap_or_default());
    let tool = |name: &str| {
        let parameters = json!({"type": "object", "properties": properties, "required": ["city"]});
        json!({"type": "function", "function": {"name": name, "description": "It", "parameters": parameters}})
    };
    json!([tool("get_weather"), tool("now")])
}

pub fn odd_tools() -> Value {
    let text = json!({"type": "string", "description": "A text"});
    tools(Some(json!({"note": text, "deep": {"type": "object", "description": "More"},
        "list": {"type": "array", "description": "Some"}})))
}

pub fn content(text: &str) -> Part {
    Part::Content(text.to_owned())
}

pub fn reasoning(text: &str) -> Part {
    Part::Reasoning(text.to_owned())
}

pub fn call(name: &str, arguments: Value, id: Option<&str>) -> Part {
    let arguments = arguments.as_object().unwrap().clone();
    Part::Call(ToolCall { name: name.to_owned(), arguments, id: id.map(str::to_owned) })
}
