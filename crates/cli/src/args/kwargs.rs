//! The value of `--chat-template-kwargs`: variables for the chat template, as a JSON object. What they mean is the
//! template's affair.

use serde_json::{Map, Value, error::Category};

/// Variables for the chat template.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kwargs(pub Map<String, Value>);

/// Reads them.
///
/// # Errors
/// If the text is no JSON object, or has the conversation itself in it.
pub fn parse(text: &str) -> Result<Kwargs, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| match error.classify() {
        Category::Eof => "the JSON ends too early".to_owned(),
        _ => format!("expected a JSON object, got no JSON at column {}", error.column()),
    })?;
    match value {
        Value::Object(map) if map.contains_key("messages") => Err("messages are what is said, no setting".to_owned()),
        Value::Object(map) => Ok(Kwargs(map)),
        _ => Err("expected a JSON object such as {\"enable_thinking\": false}".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_objects() {
        assert_eq!(parse(" {\"a\": [1, null]} ").unwrap().0["a"], serde_json::json!([1, null]));
        for (text, expected) in [
            ("[1]", "expected a JSON object such as {\"enable_thinking\": false}"),
            ("{\"a\": ", "the JSON ends too early"),
            ("{a: 1}", "expected a JSON object, got no JSON at column 2"),
            ("{\"messages\": []}", "messages are what is said, no setting"),
        ] {
            assert_eq!(parse(text), Err(expected.to_owned()), "{text}");
        }
    }
}
