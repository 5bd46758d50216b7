//! Python's methods of strings that templates meet and that neither minijinja nor its pycompat has as Python does: which
//! characters are white space and which end lines, above all.

use minijinja::value::{Kwargs, Tuple, Value, from_args};
use minijinja::{Environment, Error, ErrorKind};

use super::printed;

/// Adds the filters to `environment`.
pub(super) fn add_to(environment: &mut Environment) {
    environment.add_filter("indent", indent);
    environment.add_filter("trim", |value: &Value, chars: Option<&str>| {
        let text = value.as_str().map_or_else(|| printed::text(value), str::to_owned);
        Value::from(stripped(&text, chars, Ends::Both))
    });
}

/// What the method `name` gives for `text`; `None` if it is none of those here.
pub(super) fn method(text: &str, name: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    let value = match name {
        "strip" | "lstrip" | "rstrip" => {
            let (chars,): (Option<&str>,) = from_args(args)?;
            let ends = match name {
                "lstrip" => Ends::Left,
                "rstrip" => Ends::Right,
                _ => Ends::Both,
            };
            Value::from(stripped(text, chars, ends))
        }
        "splitlines" => {
            let (keep, options): (Option<bool>, Kwargs) = from_args(args)?;
            let keep = keep.or(options.get("keepends")?).unwrap_or(false);
            options.assert_all_used()?;
            lines(text).map(|(line, end)| if keep { format!("{line}{end}") } else { line.to_owned() }).collect()
        }
        "removeprefix" => {
            let (prefix,): (&str,) = from_args(args)?;
            Value::from(text.strip_prefix(prefix).unwrap_or(text))
        }
        "removesuffix" => {
            let (suffix,): (&str,) = from_args(args)?;
            Value::from(text.strip_suffix(suffix).unwrap_or(text))
        }
        "index" => {
            let (part,): (&str,) = from_args(args)?;
            let at = text.find(part).ok_or_else(|| refused("index: substring not found"))?;
            Value::from(text[..at].chars().count())
        }
        "partition" => {
            let (separator,): (&str,) = from_args(args)?;
            let at = separated(separator, || text.find(separator))?;
            three_parts(text, at.map(|at| (at, separator.len())), text.len())
        }
        "rpartition" => {
            let (separator,): (&str,) = from_args(args)?;
            let at = separated(separator, || text.rfind(separator))?;
            three_parts(text, at.map(|at| (at, separator.len())), 0)
        }
        "rsplit" => {
            let (separator, limit): (&str, Option<i64>) = from_args(args)?;
            separated(separator, || None)?;
            let limit = limit.and_then(|limit| usize::try_from(limit).ok()).map_or(usize::MAX, |n| n.saturating_add(1));
            let mut parts: Vec<Value> = text.rsplitn(limit, separator).map(Value::from).collect();
            parts.reverse();
            Value::from(parts)
        }
        _ => return Ok(None),
    };
    Ok(Some(value))
}

/// Which ends of a text lose something.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends {
    Left,
    Right,
    Both,
}

/// `str.strip` and its kin.
fn stripped<'t>(text: &'t str, chars: Option<&str>, ends: Ends) -> &'t str {
    let goes = |c: char| chars.map_or_else(|| is_space(c), |chars| chars.contains(c));
    let text = if ends == Ends::Right { text } else { text.trim_start_matches(goes) };
    if ends == Ends::Left { text } else { text.trim_end_matches(goes) }
}

/// `str.isspace`: Unicode's white space and four separators of ASCII.
fn is_space(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{1c}'..='\u{1f}')
}

/// The lines of a text with what ends each.
fn lines(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let ends =
            |c| matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}');
        let at = rest.find(ends).unwrap_or(rest.len());
        let (line, tail) = rest.split_at(at);
        let end = if tail.starts_with("\r\n") { 2 } else { tail.chars().next().map_or(0, char::len_utf8) };
        rest = &tail[end..];
        Some((line, &tail[..end]))
    })
}

/// Jinja2's `indent(width=4, first=False, blank=False)`, whose width may be a text.
fn indent(
    value: &Value,
    width: Option<Value>,
    first: Option<bool>,
    blank: Option<bool>,
    options: Kwargs,
) -> Result<String, Error> {
    let width = match width {
        Some(width) => width,
        None => options.get::<Option<Value>>("width")?.unwrap_or(Value::from(4)),
    };
    let first = first.or(options.get("first")?).unwrap_or(false);
    let blank = blank.or(options.get("blank")?).unwrap_or(false);
    options.assert_all_used()?;
    let Some(text) = value.as_str() else {
        return Err(Error::new(
            ErrorKind::InvalidOperation,
            format!("indent: expected a string, got {}", value.kind()),
        ));
    };
    let indentation = match (width.as_str(), width.as_usize()) {
        (Some(text), _) => text.to_owned(),
        (None, Some(width)) => " ".repeat(width.min(1000)),
        (None, None) => return Err(refused("indent: expected a width")),
    };
    // A line break at the end leaves an empty last line, which Jinja2 gets by adding one more.
    let text = format!("{text}\n");
    let mut out = String::new();
    for (n, (line, _)) in lines(&text).enumerate() {
        if n > 0 {
            out.push('\n');
        }
        if if n == 0 { first } else { blank || !line.is_empty() } {
            out.push_str(&indentation);
        }
        out.push_str(line);
    }
    Ok(out)
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
