//! The origin of a trace, and the rows of its values, as the strings of a safetensors file's metadata.

use std::collections::{BTreeMap, HashMap};

use super::laid::Laid;
use crate::{Key, Origin};

/// The version of the format, as the metadata says it.
pub(super) const VERSION: &str = "1";
/// The key that marks a safetensors file as ours.
pub(super) const MARK: &str = "candor.trace";
const ROWS: &str = "rows";
const OUTPUT_ROWS: &str = "output_rows";

/// The metadata of a file that holds these values, in the order it is written.
pub(super) fn of(origin: &Origin, values: &[Laid], tokens: usize) -> BTreeMap<String, String> {
    let mut all = BTreeMap::from([(MARK.to_owned(), VERSION.to_owned())]);
    let texts = [
        ("engine", &origin.engine),
        ("backend", &origin.backend),
        ("model", &origin.model),
        ("model_sha256", &origin.model_sha256),
        ("prompt", &origin.prompt),
    ];
    all.extend(texts.into_iter().filter_map(|(name, text)| Some((name.to_owned(), text.clone()?))));
    all.extend(origin.tokens.as_ref().map(|ids| ("tokens".to_owned(), list(ids))));
    all.extend(origin.prompt_tokens.map(|count| ("prompt_tokens".to_owned(), count.to_string())));
    all.extend(origin.text.as_ref().map(|ids| ("text".to_owned(), list(ids))));
    all.extend(origin.positions.as_ref().map(|positions| ("positions".to_owned(), list(positions))));

    let every: Vec<usize> = (0..tokens).collect();
    let group = |outputs: bool| {
        let members = values.iter().filter(|laid| is_output(&laid.key) == outputs);
        most_common(members.map(|laid| &laid.rows))
    };
    let rows = group(false).unwrap_or_else(|| every.clone());
    let output_rows = group(true).unwrap_or_else(|| rows.clone());
    if rows != every {
        all.insert(ROWS.to_owned(), list(&rows));
    }
    if output_rows != rows {
        all.insert(OUTPUT_ROWS.to_owned(), list(&output_rows));
    }
    for laid in values {
        let expected = if is_output(&laid.key) { &output_rows } else { &rows };
        if laid.rows != *expected {
            all.insert(format!("{ROWS}.{}", laid.key), list(&laid.rows));
        }
    }
    all
}

fn is_output(key: &Key) -> bool {
    matches!(key.name.as_str(), "result_norm" | "result_output")
}

fn most_common<'a>(lists: impl Iterator<Item = &'a Vec<usize>>) -> Option<Vec<usize>> {
    let mut counts: BTreeMap<&Vec<usize>, usize> = BTreeMap::new();
    for list in lists {
        *counts.entry(list).or_default() += 1;
    }
    counts.into_iter().max_by_key(|&(_, count)| count).map(|(list, _)| list.clone())
}

fn list<T: ToString>(items: &[T]) -> String {
    let items: Vec<String> = items.iter().map(T::to_string).collect();
    format!("[{}]", items.join(","))
}

/// Reads the origin.
///
/// # Errors
/// A sentence on what is wrong, for the reader to put the file's name before.
pub(super) fn origin(metadata: &HashMap<String, String>) -> Result<Origin, String> {
    let text = |name: &str| metadata.get(name).cloned();
    let ids = |name: &str| {
        let parsed = metadata.get(name).map(|text| serde_json::from_str::<Vec<u32>>(text));
        parsed.transpose().map_err(|error| format!("metadata {name}: {error}, expected a list of numbers"))
    };
    let prompt_tokens = metadata.get("prompt_tokens").map(|text| text.parse().map_err(|_| text));
    Ok(Origin {
        engine: text("engine"),
        backend: text("backend"),
        model: text("model"),
        model_sha256: text("model_sha256"),
        prompt: text("prompt"),
        tokens: ids("tokens")?,
        prompt_tokens: prompt_tokens
            .transpose()
            .map_err(|text| format!("metadata prompt_tokens: {text}, expected a number"))?,
        positions: ids("positions")?,
        text: ids("text")?,
        cache: None,
    })
}

/// The token that each of `count` rows of a value stands for.
///
/// # Errors
/// A sentence on what is wrong.
pub(super) fn rows(metadata: &HashMap<String, String>, key: &Key, count: usize) -> Result<Vec<usize>, String> {
    let own = format!("{ROWS}.{key}");
    let names: &[&str] = if is_output(key) { &[&own, OUTPUT_ROWS, ROWS] } else { &[&own, ROWS] };
    let Some((name, text)) = names.iter().find_map(|&name| Some((name, metadata.get(name)?))) else {
        return Ok((0..count).collect());
    };
    let rows: Vec<usize> = serde_json::from_str(text).map_err(|error| format!("metadata {name}: {error}"))?;
    if rows.len() != count {
        return Err(format!("metadata {name} lists {} rows, {key} has {count}", rows.len()));
    }
    Ok(rows)
}
