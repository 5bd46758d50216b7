//! Reading the tool calls of a finished block. Text that is no call gives nothing: there is no repair.

use serde_json::{Map, Value};

use super::formats::{Body, CallFormat, Header, Named};
use super::part::{Read, ToolCall};
use super::{gemma, tagged};

/// The calls that a block begins with, which itself begins with the format's opening, and what follows them.
pub(super) fn read<'t>(format: &CallFormat, block: &'t str, tools: Option<&Value>) -> Read<'t> {
    let inside = block.strip_prefix(format.open)?;
    match &format.body {
        Body::Json { name, arguments } => json(inside, name, arguments),
        Body::Whole { name, arguments } => {
            let (value, rest) = first_value(block)?;
            Some((vec![ToolCall::of(&value, name, arguments)?], rest))
        }
        Body::Named(named) => read_named(named, if named.open == format.open { block } else { inside }),
        Body::Tagged(tags) => tagged::read(tags, if tags.open == format.open { block } else { inside }, tools),
        Body::Gemma => gemma::read(inside),
    }
}

impl ToolCall {
    /// The call in a JSON object.
    fn of(value: &Value, name: &str, arguments: &str) -> Option<ToolCall> {
        let outer = value.as_object()?;
        let inner = outer.get("function").and_then(Value::as_object).unwrap_or(outer);
        let id = ["id", "tool_call_id"].iter().find_map(|key| outer.get(*key)?.as_str());
        Some(ToolCall {
            name: inner.get(name)?.as_str()?.to_owned(),
            arguments: object(inner.get(arguments))?,
            id: id.map(str::to_owned),
        })
    }
}

/// Arguments: an object, the text of one, or none at all.
fn object(value: Option<&Value>) -> Option<Map<String, Value>> {
    match value {
        None | Some(Value::Null) => Some(Map::new()),
        Some(Value::Object(map)) => Some(map.clone()),
        Some(Value::String(text)) => serde_json::from_str(text).ok(),
        Some(_) => None,
    }
}

/// The JSON value that `text` begins with, and what follows it.
pub(super) fn first_value(text: &str) -> Option<(Value, &str)> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let value = values.next()?.ok()?;
    Some((value, &text[values.byte_offset()..]))
}

fn json<'t>(text: &'t str, name: &str, arguments: &str) -> Read<'t> {
    let (mut calls, mut rest) = (Vec::new(), text);
    while let Some((value, after)) = first_value(rest) {
        let call = |value: &Value| ToolCall::of(value, name, arguments);
        match &value {
            Value::Array(items) => calls.extend(items.iter().map(call).collect::<Option<Vec<_>>>()?),
            value => calls.push(call(value)?),
        }
        rest = after;
    }
    (!calls.is_empty()).then_some((calls, rest))
}

fn read_named<'t>(named: &Named, text: &'t str) -> Read<'t> {
    let (mut calls, mut rest) = (Vec::new(), text);
    while let Some(call) = rest.trim_start().strip_prefix(named.open) {
        let (header, arguments) = call.split_once(named.arguments)?;
        let (name, id) = named.header.read(header.trim())?;
        let (value, after) = first_value(arguments)?;
        rest = after.trim_start().strip_prefix(named.close)?;
        calls.push(ToolCall { name: name.to_owned(), arguments: object(Some(&value))?, id: id.map(str::to_owned) });
    }
    (!calls.is_empty()).then_some((calls, rest))
}

impl Header {
    /// The name and the id.
    fn read<'t>(&self, header: &'t str) -> Option<(&'t str, Option<&'t str>)> {
        let (name, id) = match self {
            Header::NameThenId(separator) => match header.split_once(separator) {
                Some((name, id)) => (name, Some(id)),
                None => (header, None),
            },
            Header::IdThenName(separator) => header.split_once(separator).map(|(id, name)| (name, Some(id)))?,
            Header::KindThenName(separator) => (header.split_once(separator)?.1, None),
            Header::Kimi => {
                let (path, _) = header.rsplit_once(':')?;
                (path.strip_prefix("functions.").unwrap_or(path), Some(header))
            }
        };
        (!name.is_empty()).then_some((name, id))
    }
}
