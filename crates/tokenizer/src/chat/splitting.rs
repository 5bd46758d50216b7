//! `str.split` and `str.rsplit`, at a separator or at white space.

use minijinja::value::{Kwargs, Value, from_args};
use minijinja::{Error, ErrorKind};

use super::stripping::{Ends, is_space, stripped};

/// The parts of a text, as the method `name` has them.
pub(super) fn split<'t>(text: &'t str, name: &str, args: &[Value]) -> Result<Vec<&'t str>, Error> {
    let (separator, limit, options): (Option<Value>, Option<i64>, Kwargs) = from_args(args)?;
    let separator = separator.or(options.get("sep")?).filter(|separator| !separator.is_none());
    let limit = limit.or(options.get("maxsplit")?);
    options.assert_all_used()?;
    let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
    let from = if name == "split" { Ends::Left } else { Ends::Right };
    match separator {
        Some(separator) => {
            let separator = separator.as_str().ok_or_else(|| refused("split: expected a string"))?;
            separated(separator, || None)?;
            Ok(between(text, separator, limit, from))
        }
        None => Ok(words(text, limit, from)),
    }
}

/// The parts between separators, at most `limit` of which are counted, from an end.
fn between<'t>(text: &'t str, separator: &str, limit: usize, from: Ends) -> Vec<&'t str> {
    let count = limit.saturating_add(1);
    if from == Ends::Left {
        return text.splitn(count, separator).collect();
    }
    let mut parts: Vec<&str> = text.rsplitn(count, separator).collect();
    parts.reverse();
    parts
}

/// The words between white space, cut off one by one from an end; what is beyond the limit stays one part.
fn words(text: &str, limit: usize, from: Ends) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = stripped(text, None, from);
    while !rest.is_empty() {
        let cut = if from == Ends::Left { rest.find(is_space) } else { rest.rfind(is_space) };
        let Some(cut) = cut.filter(|_| parts.len() < limit) else {
            parts.push(rest);
            break;
        };
        let (before, after) = rest.split_at(cut);
        let after = &after[after.chars().next().map_or(0, char::len_utf8)..];
        let (part, others) = if from == Ends::Left { (before, after) } else { (after, before) };
        parts.push(part);
        rest = stripped(others, None, from);
    }
    if from == Ends::Right {
        parts.reverse();
    }
    parts
}

pub(super) fn refused(message: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

/// `find`, unless the separator is empty, which Python refuses.
pub(super) fn separated(separator: &str, find: impl FnOnce() -> Option<usize>) -> Result<Option<usize>, Error> {
    if separator.is_empty() { Err(refused("empty separator")) } else { Ok(find()) }
}
