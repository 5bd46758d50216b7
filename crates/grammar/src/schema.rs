//! What of JSON schemas is refused besides what the library refuses, and what is made stricter.

use serde_json::{Map, Value, json};

/// Keywords whose value is a schema.
const SCHEMAS: [&str; 4] = ["additionalItems", "additionalProperties", "items", "not"];
/// Keywords whose value is a list of schemas; `items` was one, too.
const LISTS: [&str; 5] = ["allOf", "anyOf", "items", "oneOf", "prefixItems"];
/// Keywords whose value is an object of schemas.
const OBJECTS: [&str; 4] = ["$defs", "definitions", "patternProperties", "properties"];

/// Formats that the library lets pass where a text does not have them.
const LOOSE: [&str; 1] = ["hostname"];
/// Keywords that the library knows, or refuses by name. It would ignore any other name.
#[rustfmt::skip]
const KNOWN: [&str; 58] = [
    "$anchor", "$comment", "$defs", "$dynamicAnchor", "$dynamicRef", "$id", "$recursiveAnchor", "$recursiveRef", "$ref",
    "$schema", "$vocabulary", "additionalItems", "additionalProperties", "allOf", "anyOf", "const", "contains", "default",
    "definitions", "dependencies", "dependentRequired", "dependentSchemas", "deprecated", "description", "else", "enum",
    "examples", "exclusiveMaximum", "exclusiveMinimum", "format", "id", "if", "items", "maxContains", "maxItems",
    "maxLength", "maxProperties", "maximum", "minContains", "minItems", "minLength", "minProperties", "minimum",
    "multipleOf", "not", "oneOf", "pattern", "patternProperties", "prefixItems", "properties", "propertyNames",
    "readOnly", "required", "then", "title", "type", "uniqueItems", "writeOnly",
];

/// A day of the calendar, with the leap years of the Gregorian one.
const DATE: &str = concat!(
    r"(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))",
    r"|(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)",
);
/// A time of a day, without leap seconds: whether there was one is no matter of form.
const TIME: &str =
    r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?(?:[zZ]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])";

/// Refuses what would let a wrong value pass.
pub fn check(schema: &Value) -> Result<(), String> {
    each(schema, &mut |keywords| {
        let unknown = |keyword: &&String| !KNOWN.contains(&keyword.as_str()) && !keyword.starts_with("unevaluated");
        if let Some(keyword) = keywords.keys().find(unknown) {
            return Err(format!("keyword {keyword} is not served"));
        }
        match keywords.get("format").and_then(Value::as_str) {
            Some(format) if LOOSE.contains(&format) => Err(format!("format {format} is not served")),
            _ => Ok(()),
        }
    })
}

/// Calls something on a schema and all within it.
fn each(schema: &Value, act: &mut impl FnMut(&Map<String, Value>) -> Result<(), String>) -> Result<(), String> {
    let Value::Object(keywords) = schema else { return Ok(()) };
    act(keywords)?;
    for (keyword, value) in keywords {
        let keyword = keyword.as_str();
        match value {
            Value::Object(_) if SCHEMAS.contains(&keyword) => each(value, act)?,
            Value::Array(all) if LISTS.contains(&keyword) => all.iter().try_for_each(|schema| each(schema, act))?,
            Value::Object(all) if OBJECTS.contains(&keyword) => {
                all.values().try_for_each(|schema| each(schema, act))?
            }
            _ => {}
        }
    }
    Ok(())
}

/// The schema with formats as patterns and patterns in other words, where the library's own let wrong texts pass.
pub fn strict(schema: &Value) -> Value {
    let Value::Object(keywords) = schema else { return schema.clone() };
    let mut made = Map::new();
    let mut pattern = None;
    for (keyword, value) in keywords {
        let name = keyword.as_str();
        if name == "deprecated" {
            continue;
        }
        let value = match value {
            Value::Object(_) if SCHEMAS.contains(&name) => strict(value),
            Value::Array(all) if LISTS.contains(&name) => all.iter().map(strict).collect(),
            Value::Object(all) if OBJECTS.contains(&name) => {
                let patterns = name == "patternProperties";
                let named = |name: &String| if patterns { spaced(name) } else { name.clone() };
                all.iter().map(|(name, schema)| (named(name), strict(schema))).collect()
            }
            Value::String(pattern) if name == "pattern" => spaced(pattern).into(),
            Value::String(format) if name == "format" => {
                pattern = match format.as_str() {
                    "date" => Some(format!("^{DATE}$")),
                    "time" => Some(format!("^{TIME}$")),
                    "date-time" => Some(format!("^{DATE}[tT]{TIME}$")),
                    _ => None,
                };
                if pattern.is_some() {
                    continue;
                }
                value.clone()
            }
            other => other.clone(),
        };
        made.insert(keyword.clone(), value);
    }
    match pattern {
        None => made.into(),
        Some(pattern) if made.contains_key("pattern") => {
            let also = json!({ "pattern": pattern });
            match made.get_mut("allOf") {
                Some(Value::Array(all)) => all.push(also),
                _ => {
                    made.insert("allOf".to_owned(), json!([also]));
                }
            }
            made.into()
        }
        Some(pattern) => {
            made.insert("pattern".to_owned(), pattern.into());
            made.into()
        }
    }
}

/// A pattern whose white space has U+FEFF, too, as JavaScript's has and Rust's has not.
fn spaced(pattern: &str) -> String {
    let mut made = String::with_capacity(pattern.len());
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match (c, (c == '\\').then(|| chars.next()).flatten()) {
            (_, Some('s')) => made.push_str(r"[\s\x{feff}]"),
            (_, Some('S')) => made.push_str(r"[^\s\x{feff}]"),
            (_, Some(next)) => made.extend([c, next]),
            (_, None) => made.push(c),
        }
    }
    made
}
