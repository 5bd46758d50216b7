//! Python's methods of strings that templates meet and that neither minijinja nor its pycompat has as Python does: which
//! characters are white space and which end lines, above all.

use minijinja::value::{Kwargs, Tuple, Value, from_args};
use minijinja::{Environment, Error, ErrorKind};

use super::printed;
use super::splitting::{self, refused, separated};
use super::stripping::{Ends, stripped};

/// Most characters that a text is filled up to.
const MAX_WIDTH: usize = 10_000;

/// Adds the filters to `environment`.
pub(super) fn add_to(environment: &mut Environment) {
    environment.add_filter("indent", indent);
    environment.add_filter("trim", |value: &Value, chars: Option<&str>| {
        let text = value.as_str().map_or_else(|| printed::text(value), str::to_owned);
        Value::from(stripped(&text, chars, Ends::Both))
    });
}

/// What the method `name` gives for `text`; `None` for a method that is not here.
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
        "split" | "rsplit" => splitting::split(text, name, args)?.into_iter().map(Value::from).collect(),
        "join" => {
            let (items,): (Value,) = from_args(args)?;
            let items: Vec<Value> = items.try_iter()?.collect();
            let texts: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
            Value::from(texts.ok_or_else(|| refused("join: expected strings alone"))?.join(text))
        }
        "ljust" | "rjust" | "center" => {
            let (width, fill): (usize, Option<char>) = from_args(args)?;
            let missing = width.min(MAX_WIDTH).saturating_sub(text.chars().count());
            let left = match name {
                "ljust" => 0,
                "rjust" => missing,
                // As CPython has it: the odd one goes to the left where the width is odd.
                _ => missing / 2 + (missing & width & 1),
            };
            let fill = |count: usize| fill.unwrap_or(' ').to_string().repeat(count);
            Value::from(format!("{}{text}{}", fill(left), fill(missing - left)))
        }
        "zfill" => {
            let (width,): (usize,) = from_args(args)?;
            let (sign, digits) = text.split_at(usize::from(text.starts_with(['+', '-'])));
            let missing = width.min(MAX_WIDTH).saturating_sub(text.chars().count());
            Value::from(format!("{sign}{}{digits}", "0".repeat(missing)))
        }
        _ => return Ok(None),
    };
    Ok(Some(value))
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

/// What is before, in and after the separator, whose place and length are given; all of the text is on one side of
/// `otherwise` without a separator.
fn three_parts(text: &str, separator: Option<(usize, usize)>, otherwise: usize) -> Value {
    let (at, len) = separator.unwrap_or((otherwise, 0));
    Value::from(Tuple::from(vec![
        Value::from(&text[..at]),
        Value::from(&text[at..at + len]),
        Value::from(&text[at + len..]),
    ]))
}
