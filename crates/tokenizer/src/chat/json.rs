//! JSON as Python's `json.dumps` spells it, which is what models have seen in training: a space after commas and colons,
//! no HTML escapes, Python's floats. It only writes.

use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Error, ErrorKind};
use std::fmt::Write;

use super::generator::is_generator;

/// Values nested deeper are refused instead of overflowing the stack.
const MAX_DEPTH: usize = 256;

/// The arguments of `json.dumps` that templates use.
pub(super) struct Style {
    ensure_ascii: bool,
    /// What a level is indented by; everything is on one line where `None`.
    indent: Option<String>,
    item_separator: String,
    key_separator: String,
    sort_keys: bool,
}

impl Style {
    pub fn from_arguments(options: &Kwargs) -> Result<Style, Error> {
        let indent = match options.get::<Option<Value>>("indent")?.filter(|indent| !indent.is_none()) {
            None => None,
            Some(indent) => match (indent.as_str(), indent.as_i64()) {
                (Some(text), _) => Some(text.to_owned()),
                (None, Some(spaces)) => Some(" ".repeat(spaces.clamp(0, 64) as usize)),
                (None, None) => {
                    return Err(refused(format!("tojson: indent: expected a number or string, got {}", indent.kind())));
                }
            },
        };
        let mut style = Style {
            ensure_ascii: options.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false),
            item_separator: if indent.is_some() { "," } else { ", " }.to_owned(),
            key_separator: ": ".to_owned(),
            indent,
            sort_keys: options.get::<Option<bool>>("sort_keys")?.unwrap_or(false),
        };
        if let Some(separators) = options.get::<Option<Vec<String>>>("separators")? {
            let [item, key] = <[String; 2]>::try_from(separators)
                .map_err(|got| refused(format!("tojson: separators: expected 2, got {}", got.len())))?;
            (style.item_separator, style.key_separator) = (item, key);
        }
        Ok(style)
    }
}

/// The JSON text of `value`.
pub(super) fn dumps(value: &Value, style: &Style) -> Result<String, Error> {
    let mut out = String::new();
    write(value, style, 0, &mut out)?;
    Ok(out)
}

fn refused(message: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

fn write(value: &Value, style: &Style, depth: usize, out: &mut String) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(refused(format!("tojson: nested deeper than {MAX_DEPTH} levels")));
    }
    match value.kind() {
        ValueKind::None => out.push_str("null"),
        ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number => out.push_str(&number(value)?),
        ValueKind::String => string(value.as_str().unwrap_or_default(), style.ensure_ascii, out),
        ValueKind::Seq | ValueKind::Iterable if !is_generator(value) => {
            let items = value.try_iter()?.map(|item| (None, item)).collect();
            container(['[', ']'], items, style, depth, out)?;
        }
        ValueKind::Map => {
            let mut items = Vec::new();
            for key in value.try_iter()? {
                items.push((Some(self::key(&key)?), value.get_item(&key)?));
            }
            if style.sort_keys {
                items.sort_by(|a, b| a.0.cmp(&b.0));
            }
            container(['{', '}'], items, style, depth, out)?;
        }
        other => return Err(refused(format!("tojson: expected a JSON value, got {other}"))),
    }
    Ok(())
}

/// The items of a list or, with their keys, of a map.
fn container(
    brackets: [char; 2],
    items: Vec<(Option<String>, Value)>,
    style: &Style,
    depth: usize,
    out: &mut String,
) -> Result<(), Error> {
    let new_line = |depth: usize, out: &mut String| {
        if let Some(indent) = &style.indent {
            out.push('\n');
            out.push_str(&indent.repeat(depth));
        }
    };
    out.push(brackets[0]);
    let count = items.len();
    for (n, (key, item)) in items.into_iter().enumerate() {
        if n > 0 {
            out.push_str(&style.item_separator);
        }
        new_line(depth + 1, out);
        if let Some(key) = key {
            string(&key, style.ensure_ascii, out);
            out.push_str(&style.key_separator);
        }
        write(&item, style, depth + 1, out)?;
    }
    if count > 0 {
        new_line(depth, out);
    }
    out.push(brackets[1]);
    Ok(())
}

/// A map's key as JSON has it: text.
fn key(key: &Value) -> Result<String, Error> {
    match key.kind() {
        ValueKind::String => Ok(key.as_str().unwrap_or_default().to_owned()),
        ValueKind::None => Ok("null".to_owned()),
        ValueKind::Bool => Ok(if key.is_true() { "true" } else { "false" }.to_owned()),
        ValueKind::Number => number(key),
        other => Err(refused(format!("tojson: expected a key that JSON can have, got {other}"))),
    }
}

fn number(value: &Value) -> Result<String, Error> {
    if value.is_integer() {
        return Ok(value.to_string());
    }
    Ok(float(f64::try_from(value.clone())?))
}

/// A float as `json.dumps` has it, which is Python's `repr` except for infinities: the shortest digits that read back
/// the same, plain between 1e-4 and 1e16.
pub(super) fn float(x: f64) -> String {
    if x.is_nan() {
        return "NaN".to_owned();
    }
    if x.is_infinite() {
        return if x > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let scientific = format!("{x:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>().unwrap_or(0) {
        exponent @ (..-4 | 16..) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.abs())
        }
        _ => format!("{x:?}"),
    }
}

fn string(text: &str, ensure_ascii: bool, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if c < ' ' || (ensure_ascii && !(' '..='~').contains(&c)) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_python_s() {
        let cases: &[(f64, &str)] = &[
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (21.5, "21.5"),
            (0.1, "0.1"),
            (1e-4, "0.0001"),
            (1.5e-5, "1.5e-05"),
            (123456789012345.0, "123456789012345.0"),
            (9007199254740993.0, "9007199254740992.0"),
            (1e16, "1e+16"),
            (1.25e300, "1.25e+300"),
            (5e-324, "5e-324"),
            (f64::NEG_INFINITY, "-Infinity"),
        ];
        for (x, expected) in cases {
            assert_eq!(float(*x), *expected);
        }
    }
}
