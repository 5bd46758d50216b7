//! HTML in Python's sense: text that `safe` and `escape` have marked, and what adding something to it does. Templates have no
//! use for it, but some mark their text by mistake, and models have seen the result.

use minijinja::value::{Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State};

use super::{printed, tags::PLUS};

/// Adds the sum and the filters to `environment`.
pub(super) fn add_to(environment: &mut Environment) {
    environment.add_filter(PLUS, plus);
    for name in ["e", "escape"] {
        environment.add_filter(name, |value: &Value| match value.as_str() {
            Some(_) => Value::from_safe_string(escaped(value)),
            None => Value::from_safe_string(escaped(&Value::from(printed::text(value)))),
        });
    }
}

/// `left + right`.
fn plus(state: &mut State, left: &Value, right: &Value) -> Result<Value, Error> {
    match (left.as_str(), right.as_str()) {
        (Some(_), Some(_)) if left.is_safe() || right.is_safe() => {
            Ok(Value::from_safe_string(escaped(left) + &escaped(right)))
        }
        (Some(left), Some(right)) => Ok(Value::from([left, right].concat())),
        _ if left.kind() == ValueKind::String || right.kind() == ValueKind::String => {
            let detail = format!("tried to use + operator on unsupported types {} and {}", left.kind(), right.kind());
            Err(Error::new(ErrorKind::InvalidOperation, detail))
        }
        _ => {
            let sum = state.env().compile_expression("left + right")?;
            sum.eval(Value::from_pairs([("left", left.clone()), ("right", right.clone())]))
        }
    }
}

/// The text as HTML, if it is not that already.
fn escaped(value: &Value) -> String {
    let text = value.as_str().unwrap_or_default();
    if value.is_safe() {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&#34;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}
