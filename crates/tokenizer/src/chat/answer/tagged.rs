//! Calls whose arguments are elements of their own (`<parameter=city>Bern</parameter>`). Their values are text; whether a 3
//! is a number is what the tool's schema says, or the model where its family does.

use serde_json::{Map, Value};

use super::formats::{Tagged, Typing};
use super::part::{Read, ToolCall};

/// The calls that a text begins with, and what follows them.
pub(super) fn read<'t>(tags: &Tagged, text: &'t str, tools: Option<&Value>) -> Read<'t> {
    let (mut calls, mut rest) = (Vec::new(), text);
    while let Some(call) = rest.trim_start().strip_prefix(tags.open) {
        let (name, mut body) = name(tags, call)?;
        let mut arguments = Map::new();
        while let Some(element) = body.trim_start().strip_prefix(tags.key) {
            let (key, value) = element.split_once(tags.key_end)?;
            let value = if tags.value.is_empty() { value } else { value.trim_start().strip_prefix(tags.value)? };
            let end = value_end(tags, value)?;
            arguments.insert(key.to_owned(), typed(tags, &value[..end], || schema(tools, name, key))?);
            body = &value[end + tags.value_end.len()..];
        }
        rest = body.trim_start().strip_prefix(tags.close)?;
        calls.push(ToolCall { name: name.to_owned(), arguments, id: None });
    }
    (!calls.is_empty()).then_some((calls, rest))
}

/// A call's name, and what follows it.
fn name<'t>(tags: &Tagged, call: &'t str) -> Option<(&'t str, &'t str)> {
    let (name, rest) = match tags.name_end {
        Some(end) => call.split_once(end)?,
        None => call.split_at(call.find(['\n', '<']).unwrap_or(call.len())),
    };
    let name = name.trim();
    (!name.is_empty() && !name.contains(['{', '"', '<'])).then_some((name, rest))
}

/// Where a value ends: where the end of one is followed by another argument or by the call's end, since a value may hold
/// the words of its own end.
fn value_end(tags: &Tagged, text: &str) -> Option<usize> {
    let ends = text.match_indices(tags.value_end).map(|(at, _)| at);
    ends.into_iter().find(|at| {
        let after = text[at + tags.value_end.len()..].trim_start();
        after.is_empty() || after.starts_with(tags.key) || (!tags.close.is_empty() && after.starts_with(tags.close))
    })
}

fn typed<'s>(tags: &Tagged, text: &str, schema: impl FnOnce() -> Option<&'s Value>) -> Option<Value> {
    let json = |text: &str| serde_json::from_str::<Value>(text);
    if tags.typing == Typing::Stated {
        return match (text.strip_prefix("true\">"), text.strip_prefix("false\">")) {
            (Some(text), _) => Some(text.into()),
            (None, Some(text)) => json(text).ok(),
            (None, None) => None,
        };
    }
    let text = match tags.typing {
        Typing::SchemaLines => {
            let text = text.strip_prefix('\n').unwrap_or(text);
            text.strip_suffix('\n').unwrap_or(text)
        }
        Typing::SchemaCdata => match text.strip_prefix("<![CDATA[").and_then(|text| text.strip_suffix("]]>")) {
            Some(text) => return Some(text.into()),
            None => text,
        },
        _ => text,
    };
    if is_text(schema()) {
        return Some(text.into());
    }
    // Models write what is no JSON where a schema asks for it: then it is text after all, and the tool's to refuse.
    Some(json(text).unwrap_or_else(|_| text.into()))
}

/// What the tool's definition says of a parameter.
fn schema<'s>(tools: Option<&'s Value>, name: &str, key: &str) -> Option<&'s Value> {
    let tools = tools?.as_array()?.iter().map(|tool| tool.get("function").unwrap_or(tool));
    let tool = tools.into_iter().find(|tool| tool.get("name").and_then(Value::as_str) == Some(name))?;
    tool.get("parameters")?.get("properties")?.get(key)
}

/// Whether values of a parameter are text: where its schema says so, or nothing.
fn is_text(schema: Option<&Value>) -> bool {
    let Some(schema) = schema else { return true };
    match (schema.get("type"), schema.get("enum").and_then(Value::as_array)) {
        (Some(Value::String(name)), _) => name == "string",
        (Some(Value::Array(names)), _) => names.iter().any(|name| name == "string"),
        (_, Some(values)) => values.iter().all(Value::is_string),
        _ => !["anyOf", "oneOf", "allOf", "$ref", "properties", "items"].iter().any(|key| schema.get(key).is_some()),
    }
}
