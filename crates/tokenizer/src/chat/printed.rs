//! Values as Python prints them where the engine prints them otherwise: floats, alone and in lists and maps.

use minijinja::value::{Value, ValueKind};
use minijinja::{Environment, State};

use super::{generator::is_generator, json};

/// Adds it to `environment`.
pub(super) fn add_to(environment: &mut Environment) {
    environment.set_formatter(|out, _, value| Ok(out.write_str(&text(value))?));
    environment.add_filter("string", |_: &State, value: &Value| match value.kind() {
        ValueKind::String => value.clone(),
        _ => Value::from(text(value)),
    });
}

/// `str(value)`.
pub(super) fn text(value: &Value) -> String {
    if value.kind() == ValueKind::Number && !value.is_integer() || holds_float(value) {
        return repr(value);
    }
    value.to_string()
}

/// Whether a float is in it.
fn holds_float(value: &Value) -> bool {
    match value.kind() {
        ValueKind::Number => !value.is_integer(),
        ValueKind::Seq | ValueKind::Iterable if !is_generator(value) => {
            value.try_iter().is_ok_and(|mut items| items.any(|item| holds_float(&item)))
        }
        ValueKind::Map => items(value).iter().any(|(key, item)| holds_float(key) || holds_float(item)),
        _ => false,
    }
}

fn items(map: &Value) -> Vec<(Value, Value)> {
    let keys = map.try_iter().into_iter().flatten();
    keys.map(|key| (key.clone(), map.get_item(&key).unwrap_or_default())).collect()
}

/// `repr(value)`.
fn repr(value: &Value) -> String {
    match value.kind() {
        ValueKind::Number if !value.is_integer() => match f64::try_from(value.clone()) {
            Ok(x) if x.is_finite() => json::float(x),
            _ => value.to_string().to_lowercase(),
        },
        ValueKind::Seq | ValueKind::Iterable if holds_float(value) => {
            let items: Vec<String> = value.try_iter().into_iter().flatten().map(|item| repr(&item)).collect();
            match (value.is_tuple(), items.len()) {
                (false, _) => format!("[{}]", items.join(", ")),
                (true, 1) => format!("({},)", items[0]),
                (true, _) => format!("({})", items.join(", ")),
            }
        }
        ValueKind::Map if holds_float(value) => {
            let items: Vec<String> =
                items(value).iter().map(|(key, item)| format!("{}: {}", repr(key), repr(item))).collect();
            format!("{{{}}}", items.join(", "))
        }
        _ => format!("{value:?}"),
    }
}
