//! Python behaviours that templates meet and that neither minijinja nor its pycompat has. Methods that are missing here
//! are errors when a template calls them.

use minijinja::value::{Tuple, Value, ValueKind, from_args};
use minijinja::{Environment, Error, ErrorKind, State};
use minijinja_contrib::pycompat::unknown_method_callback;

/// Adds them to `environment`.
pub(super) fn add_to(environment: &mut Environment) {
    environment.set_unknown_method_callback(method);
    environment.add_filter("length", length);
    environment.add_filter("count", length);
    environment.add_test("sequence", is_sequence);
}

/// Nothing has a length too: 0.
fn length(value: &Value) -> Result<usize, Error> {
    if value.is_undefined() {
        return Ok(0);
    }
    let cannot = || Error::new(ErrorKind::InvalidOperation, format!("cannot calculate length of {}", value.kind()));
    value.len().ok_or_else(cannot)
}

/// Strings and mappings have a length and take an index, which is all that Jinja2 asks of a sequence.
fn is_sequence(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::String | ValueKind::Map)
}

fn method(state: &mut State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    let Some(text) = value.as_str() else {
        return unknown_method_callback(state, value, name, args);
    };
    match name {
        "removeprefix" => {
            let (prefix,): (&str,) = from_args(args)?;
            Ok(Value::from(text.strip_prefix(prefix).unwrap_or(text)))
        }
        "removesuffix" => {
            let (suffix,): (&str,) = from_args(args)?;
            Ok(Value::from(text.strip_suffix(suffix).unwrap_or(text)))
        }
        "index" => {
            let (part,): (&str,) = from_args(args)?;
            let at = text.find(part).ok_or_else(|| refused("index: substring not found"))?;
            Ok(Value::from(text[..at].chars().count()))
        }
        "partition" => {
            let (separator,): (&str,) = from_args(args)?;
            let at = separated(separator, || text.find(separator))?;
            Ok(three_parts(text, at.map(|at| (at, separator.len())), text.len()))
        }
        "rpartition" => {
            let (separator,): (&str,) = from_args(args)?;
            let at = separated(separator, || text.rfind(separator))?;
            Ok(three_parts(text, at.map(|at| (at, separator.len())), 0))
        }
        "rsplit" => {
            let (separator, limit): (&str, Option<i64>) = from_args(args)?;
            separated(separator, || None)?;
            let limit = limit.and_then(|limit| usize::try_from(limit).ok()).map_or(usize::MAX, |n| n.saturating_add(1));
            let mut parts: Vec<Value> = text.rsplitn(limit, separator).map(Value::from).collect();
            parts.reverse();
            Ok(Value::from(parts))
        }
        _ => unknown_method_callback(state, value, name, args),
    }
}

fn refused(message: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

/// `find`, unless the separator is empty, which Python refuses.
fn separated(separator: &str, find: impl FnOnce() -> Option<usize>) -> Result<Option<usize>, Error> {
    if separator.is_empty() { Err(refused("empty separator")) } else { Ok(find()) }
}

/// What is before, in and after the separator, whose place and length are given; all of the text is on one side of
/// `otherwise` where there is none.
fn three_parts(text: &str, separator: Option<(usize, usize)>, otherwise: usize) -> Value {
    let (at, len) = separator.unwrap_or((otherwise, 0));
    Value::from(Tuple::from(vec![
        Value::from(&text[..at]),
        Value::from(&text[at..at + len]),
        Value::from(&text[at + len..]),
    ]))
}
