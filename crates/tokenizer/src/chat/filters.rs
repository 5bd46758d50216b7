//! Filters that take more in Jinja2 than in minijinja, or refuse what minijinja lets pass: nothing at all (None), above all,
//! which minijinja takes for an empty list.

use minijinja::value::{Kwargs, Rest, Value};
use minijinja::{Environment, Error, ErrorKind, State, filters};

use super::printed;

/// Adds them to `environment`.
pub(super) fn add_to(environment: &mut Environment) {
    // Jinja2's sees attributes of Python's objects, which are not here, and never the keys of a map.
    environment.remove_filter("attr");
    environment.add_filter("default", default);
    environment.add_filter("d", default);
    environment.add_filter("replace", replace);
    environment.add_filter("int", int);
    environment.add_filter("float", float);
    environment.add_filter("candor_join", filters::join);
    environment.add_filter("candor_list", filters::list);
    environment.add_filter("candor_sort", filters::sort);
    environment.add_filter("candor_sum", filters::sum);
    for (name, lenient) in
        [("join", "candor_join"), ("list", "candor_list"), ("sort", "candor_sort"), ("sum", "candor_sum")]
    {
        environment.add_filter(name, move |state: &mut State, args: Rest<Value>, options: Kwargs| {
            if args.first().is_some_and(Value::is_none) {
                return Err(refused(format!("{name}: none is not iterable")));
            }
            state.apply_filter(lenient, &with_options(args, options))
        });
    }
}

/// The arguments of a filter, to be handed on.
pub(super) fn with_options(args: Rest<Value>, options: Kwargs) -> Vec<Value> {
    let mut args = args.0;
    if options.args().next().is_some() {
        args.push(options.into());
    }
    args
}

fn refused(message: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

/// `default(default_value='', boolean=False)`, where None is a value like others.
fn default(value: Value, args: Rest<Value>, options: Kwargs) -> Result<Value, Error> {
    let named = |name: &str| options.has(name).then(|| options.get::<Value>(name)).transpose();
    let other = args.first().cloned().map_or_else(|| named("default_value"), |other| Ok(Some(other)))?;
    let other = other.unwrap_or_else(|| Value::from(""));
    let boolean = args.get(1).cloned().map_or_else(|| named("boolean"), |boolean| Ok(Some(boolean)))?;
    let boolean = boolean.is_some_and(|boolean| boolean.is_true());
    options.assert_all_used()?;
    if args.len() > 2 {
        return Err(refused(format!("default: expected at most 2 arguments, got {}", args.len())));
    }
    Ok(if value.is_undefined() || boolean && !value.is_true() { other } else { value })
}

/// `replace(old, new, count=None)`
fn replace(value: &Value, old: &str, new: &str, count: Option<i64>, options: Kwargs) -> Result<String, Error> {
    let count = count.or(options.get("count")?);
    options.assert_all_used()?;
    let text = value.as_str().map_or_else(|| printed::text(value), str::to_owned);
    Ok(match count.and_then(|count| usize::try_from(count).ok()) {
        Some(count) => text.replacen(old, new, count),
        None => text.replace(old, new),
    })
}

/// `int(default=0, base=10)`
fn int(value: &Value, default: Option<Value>, base: Option<u32>, options: Kwargs) -> Result<Value, Error> {
    let default = default.or(options.get("default")?).unwrap_or_else(|| Value::from(0));
    let base = base.or(options.get("base")?).unwrap_or(10);
    options.assert_all_used()?;
    if value.is_integer() {
        return Ok(value.clone());
    }
    let number = match value.as_str() {
        Some(text) => whole(text.trim(), base).or_else(|| truncated(text.trim().parse().ok()?)),
        None if value.is_number() => truncated(f64::try_from(value.clone())?),
        None if matches!(value.kind(), minijinja::value::ValueKind::Bool) => Some(i128::from(value.is_true())),
        None => None,
    };
    Ok(number.map_or(default, |number| i64::try_from(number).map_or_else(|_| Value::from(number), Value::from)))
}

/// A number as Python's `int` reads it.
fn whole(text: &str, base: u32) -> Option<i128> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let prefix = match base {
        2 => "0b",
        8 => "0o",
        16 => "0x",
        _ => "",
    };
    let digits = digits.strip_prefix(prefix).unwrap_or(digits);
    let ok = (2..=36).contains(&base) && !digits.starts_with(['+', '-']);
    let number = i128::from_str_radix(&digits.replace('_', ""), base).ok().filter(|_| ok)?;
    Some(sign * number)
}

fn truncated(x: f64) -> Option<i128> {
    (x.abs() < 1e30).then_some(x as i128)
}

/// `float(default=0.0)`
fn float(value: &Value, default: Option<Value>, options: Kwargs) -> Result<Value, Error> {
    let default = default.or(options.get("default")?).unwrap_or_else(|| Value::from(0.0));
    options.assert_all_used()?;
    let number = match value.as_str() {
        Some(text) => text.trim().parse().ok(),
        None => f64::try_from(value.clone()).ok(),
    };
    Ok(number.map_or(default, Value::from))
}
