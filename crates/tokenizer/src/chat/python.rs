//! Python behaviours that templates meet and that neither minijinja nor its pycompat has: what has a length, what can be
//! run through. Methods that are missing here are errors when a template calls them.

use minijinja::value::{Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State};
use minijinja_contrib::pycompat::unknown_method_callback;

use super::{filters, generator::is_generator, lazy, markup, printed, slices, strings, tags};

/// Adds them to `environment`.
pub(super) fn add_to(environment: &mut Environment) {
    environment.set_unknown_method_callback(method);
    environment.add_filter("length", length);
    environment.add_filter("count", length);
    environment.add_filter(tags::LOOP, looped);
    environment.add_test("sequence", is_sequence);
    environment.add_test("iterable", is_iterable);
    filters::add_to(environment);
    lazy::add_to(environment);
    markup::add_to(environment);
    printed::add_to(environment);
    strings::add_to(environment);
}

/// What is undefined has a length too: 0.
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
        || value.kind() == ValueKind::Iterable && !is_generator(value)
}

fn is_iterable(value: &Value) -> bool {
    !value.is_none() && value.try_iter().is_ok()
}

/// What a loop runs over: anything but None. Generators become lists, so that the loop knows its length.
fn looped(value: Value) -> Result<Value, Error> {
    if value.is_none() {
        return Err(Error::new(ErrorKind::InvalidOperation, "none is not iterable"));
    }
    if is_generator(&value) { Ok(value.try_iter()?.collect()) } else { Ok(value) }
}

fn method(state: &mut State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    if name == tags::SLICE {
        return slices::slice(value, args);
    }
    if let Some(text) = value.as_str()
        && let Some(result) = strings::method(text, name, args)?
    {
        return Ok(result);
    }
    match (value.kind(), name, args) {
        (ValueKind::Map | ValueKind::Seq, "copy", []) => Ok(value.clone()),
        (ValueKind::Seq, "index", [item]) => {
            let at = value.try_iter()?.position(|other| other == *item);
            at.map(Value::from).ok_or_else(|| Error::new(ErrorKind::InvalidOperation, "index: not in the list"))
        }
        _ => unknown_method_callback(state, value, name, args),
    }
}
