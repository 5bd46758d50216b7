//! Gemma 4's calls: `call:name{key:value,...}`, where strings stand between `<|"|>`, and lists and objects nest.

use serde_json::{Map, Value};

use super::part::{Read, ToolCall};

/// What begins and ends a string.
pub(super) const QUOTE: &str = "<|\"|>";
/// Values nested deeper are no call.
const MAX_DEPTH: usize = 64;

/// The call that a text begins with, and what follows it.
pub(super) fn read(text: &str) -> Read<'_> {
    let (name, rest) = text.trim_start().strip_prefix("call:")?.split_once('{')?;
    let (arguments, rest) = object(rest, 0)?;
    Some((vec![ToolCall { name: name.trim().to_owned(), arguments, id: None }], rest))
}

/// What is between an opened brace and its end.
fn object(text: &str, depth: usize) -> Option<(Map<String, Value>, &str)> {
    let mut map = Map::new();
    let mut rest = text.trim_start();
    if let Some(rest) = rest.strip_prefix('}') {
        return Some((map, rest));
    }
    loop {
        let (key, after) = match rest.strip_prefix(QUOTE) {
            Some(quoted) => {
                let (key, after) = quoted.split_once(QUOTE)?;
                (key, after.trim_start().strip_prefix(':')?)
            }
            None => rest.split_once(':').map(|(key, after)| (key.trim(), after))?,
        };
        let (value, after) = value(after, depth + 1)?;
        map.insert(key.to_owned(), value);
        let after = after.trim_start();
        match after.strip_prefix(',') {
            Some(next) => rest = next.trim_start(),
            None => return Some((map, after.strip_prefix('}')?)),
        }
    }
}

fn value(text: &str, depth: usize) -> Option<(Value, &str)> {
    if depth > MAX_DEPTH {
        return None;
    }
    let text = text.trim_start();
    if let Some(quoted) = text.strip_prefix(QUOTE) {
        return quoted.split_once(QUOTE).map(|(text, rest)| (text.into(), rest));
    }
    if let Some(inside) = text.strip_prefix('{') {
        return object(inside, depth).map(|(map, rest)| (map.into(), rest));
    }
    if let Some(inside) = text.strip_prefix('[') {
        return list(inside, depth);
    }
    let end = text.find([',', '}', ']'])?;
    let value = match text[..end].trim() {
        // The template prints nothing at all as Python does.
        "None" => Value::Null,
        word => serde_json::from_str(word).ok()?,
    };
    Some((value, &text[end..]))
}

/// What is between an opened bracket and its end.
fn list(text: &str, depth: usize) -> Option<(Value, &str)> {
    let mut items = Vec::new();
    let mut rest = text.trim_start();
    if let Some(rest) = rest.strip_prefix(']') {
        return Some((items.into(), rest));
    }
    loop {
        let (item, after) = value(rest, depth + 1)?;
        items.push(item);
        let after = after.trim_start();
        match after.strip_prefix(',') {
            Some(next) => rest = next,
            None => return Some((items.into(), after.strip_prefix(']')?)),
        }
    }
}
