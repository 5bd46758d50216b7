//! `--map FILE`: names that only the user knows, as a JSON object or as lines `theirs = ours`.

use crate::{Key, import::ImportError};

/// The user's own names. `{l}` in a name stands for the layer: `dec.{l}.q = Qcur-{l}`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameMap {
    rules: Vec<Rule>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    before: String,
    /// What follows the layer; `None` where the name has none.
    after: Option<String>,
    ours: String,
}

/// Where the layer goes.
const LAYER: &str = "{l}";

impl NameMap {
    /// Reads a map: a JSON object `{"theirs": "ours"}`, or lines `theirs = ours` with `#` comments.
    ///
    /// # Errors
    /// If a line has no `=`, a side is empty, or `{l}` stands twice in a name or only in ours.
    pub fn parse(text: &str) -> Result<NameMap, ImportError> {
        let mut rules = Vec::new();
        if text.trim_start().starts_with('{') {
            let object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(text)
                .map_err(|error| ImportError::Map { line: error.line(), reason: error.to_string() })?;
            for (index, (theirs, ours)) in object.iter().enumerate() {
                let ours = ours.as_str().ok_or_else(|| ImportError::Map {
                    line: index + 1,
                    reason: format!("{theirs} means {ours}, expected a name in quotes"),
                })?;
                rules.push(rule(index + 1, theirs, ours)?);
            }
            return Ok(NameMap { rules });
        }
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (theirs, ours) = line.split_once('=').ok_or_else(|| ImportError::Map {
                line: index + 1,
                reason: format!("expected theirs = ours, got {line:?}"),
            })?;
            rules.push(rule(index + 1, theirs.trim(), ours.trim())?);
        }
        Ok(NameMap { rules })
    }

    /// Our name for theirs, if a line says it.
    pub(crate) fn find(&self, name: &str) -> Option<Key> {
        self.rules.iter().find_map(|rule| {
            let Some(after) = &rule.after else {
                return (rule.before == name).then(|| parse_key(&rule.ours));
            };
            let layer = name.strip_prefix(rule.before.as_str())?.strip_suffix(after.as_str())?;
            if layer.is_empty() || !layer.bytes().all(|byte| byte.is_ascii_digit()) {
                return None;
            }
            let layer: usize = layer.parse().ok()?;
            if rule.ours.contains(LAYER) {
                return Some(parse_key(&rule.ours.replace(LAYER, &layer.to_string())));
            }
            Some(Key::new(rule.ours.clone(), Some(layer)))
        })
    }
}

fn parse_key(text: &str) -> Key {
    text.parse().unwrap_or_else(|never| match never {})
}

fn rule(line: usize, theirs: &str, ours: &str) -> Result<Rule, ImportError> {
    let wrong = |reason: String| Err(ImportError::Map { line, reason });
    if theirs.is_empty() || ours.is_empty() {
        return wrong("expected a name on both sides".to_owned());
    }
    let theirs_parts: Vec<&str> = theirs.split(LAYER).collect();
    match theirs_parts[..] {
        [_] if ours.contains(LAYER) => wrong(format!("{ours} has {LAYER}, {theirs} does not")),
        [before] => Ok(Rule { before: before.to_owned(), after: None, ours: ours.to_owned() }),
        [before, after] => Ok(Rule { before: before.to_owned(), after: Some(after.to_owned()), ours: ours.to_owned() }),
        _ => wrong(format!("{theirs} has {LAYER} more than once")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_read_in_both_forms() {
        let lines = "# mine\ndec.{l}.q = Qcur-{l}\n\nhead = result_output\nres{l} = l_out\n";
        let json = r#"{"dec.{l}.q": "Qcur-{l}", "head": "result_output", "res{l}": "l_out"}"#;
        for text in [lines, json] {
            let map = NameMap::parse(text).unwrap();
            for (theirs, ours) in [
                ("dec.12.q", Some("Qcur-12")),
                ("head", Some("result_output")),
                ("res3", Some("l_out-3")),
                ("dec.x.q", None),
                ("dec.+1.q", None),
                ("dec..q", None),
                ("tail", None),
            ] {
                assert_eq!(map.find(theirs).map(|key| key.to_string()).as_deref(), ours, "{theirs}");
            }
        }
    }

    #[test]
    fn broken_maps_say_where() {
        for (text, line) in [("a = b\nc", 2), ("= b", 1), ("a{l}{l} = b", 1), ("a = b-{l}", 1), ("{\"a\": 1}", 1)] {
            let error = NameMap::parse(text).unwrap_err();
            assert!(error.to_string().starts_with(&format!("name map line {line}:")), "{error}");
        }
    }
}
