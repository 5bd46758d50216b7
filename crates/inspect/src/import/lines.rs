//! Printed values as people paste them into issues: a name, perhaps a layer and a token, and the first few numbers.
//!
//! ```text
//! Qcur-0: [0.1234, 0.2345, -0.3456]
//! layer 0 q first 4: 0.123 -0.4 0.5 0.25
//! [DEBUG] Layer 3 attn_norm: first 3 = [0.1, 0.2, 0.3], mean=0.02, rms=0.98
//! ```
//! Statistics are left alone: they are no evidence. A line such as `Token ids: [1, 15043]` says what went in.

use std::{collections::BTreeMap, path::Path};

use super::{
    ImportError, ReadOptions,
    dump::{Dump, Item},
    eval_callback::read_text,
    printed::{Cell, Printed, RowSaid},
    raw::logits_text,
};
use crate::{
    Evidence, Key, Known,
    names::{Meaning, Names, Order, Spelling},
};

const FORMAT: &str = "log";
/// Lines joined while a bracket is open.
const MAX_JOINED: usize = 256;
/// Words that may stand around a name and say nothing of which value it is.
const NOISE: [&str; 26] = [
    "debug",
    "info",
    "trace",
    "log",
    "dump",
    "value",
    "values",
    "vals",
    "elements",
    "elems",
    "dims",
    "few",
    "sample",
    "slice",
    "shape",
    "at",
    "for",
    "of",
    "the",
    "in",
    "is",
    "tensor",
    "vector",
    "activation",
    "activations",
    "f32",
];
/// Words of a line before its numbers; longer lines are prose.
const MAX_WORDS: usize = 12;

/// Reads a log.
pub(super) fn read(path: &Path, options: &ReadOptions) -> Result<Dump, ImportError> {
    let text = read_text(path)?;
    let mut dump = Dump::of(FORMAT);
    if let Some(mut printed) = logits_text(&text) {
        printed.row = RowSaid::Last;
        dump.items.push(("logits".to_owned(), Item::Printed(printed)));
        return Ok(dump);
    }
    let names = Names { map: options.names.clone(), bias: options.bias, ..Names::default() };
    let mut values: BTreeMap<Key, Evidence> = BTreeMap::new();
    for line in joined(&text) {
        dump.origin.tokens = dump.origin.tokens.take().or_else(|| prompt_ids(&line));
        let Some(found) = parse(&line) else { continue };
        match found.meaning(&names) {
            Some((key, order)) => {
                if let Ok(evidence) = found.printed.evidence(&key, order, None) {
                    merge(&mut values, key, evidence);
                }
            }
            None => dump.unknown.push(found.label),
        }
    }
    if values.is_empty() && dump.unknown.is_empty() {
        return Err(ImportError::Unrecognized { path: path.to_owned() });
    }
    dump.known.extend(values);
    Ok(dump)
}

/// The ids of a line such as `Token ids: [1, 15043]`; not those of tokens that came out.
fn prompt_ids(line: &str) -> Option<Vec<u32>> {
    const SAYS: [&str; 6] = ["ids", "tokens", "input_ids", "token_ids", "prompt_ids", "prompt_tokens"];
    const OTHER: [&str; 8] = ["generated", "output", "sampled", "next", "top", "candidates", "stop", "special"];
    let (label, rest) = line.rsplit_once('[')?;
    let (list, _) = rest.split_once(']')?;
    let label = label.to_lowercase();
    let words = || label.split(|c: char| !c.is_alphanumeric() && c != '_');
    if !words().any(|word| SAYS.contains(&word)) || words().any(|word| OTHER.contains(&word)) {
        return None;
    }
    let ids = list.split([',', ' ']).filter(|word| !word.is_empty()).map(|word| word.parse().ok());
    ids.collect::<Option<Vec<u32>>>().filter(|ids| !ids.is_empty())
}

/// Lines, those inside of an open bracket put into one.
fn joined(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    let mut open: Option<(String, usize)> = None;
    for line in text.lines() {
        let (line, count) = match open.take() {
            Some((before, count)) => (format!("{before} {}", line.trim()), count + 1),
            None => (line.trim_end().to_owned(), 1),
        };
        let depth = line.matches('[').count() as i64 - line.matches(']').count() as i64;
        // A name and a colon alone announce numbers on the next line.
        let announces = line.trim_end().ends_with([':', '=']) && count == 1;
        if (depth > 0 || announces) && count < MAX_JOINED {
            open = Some((line, count));
        } else {
            all.push(line);
        }
    }
    all.extend(open.map(|(line, _)| line));
    all
}

/// A line with values in it.
struct Found {
    /// The text before the numbers.
    label: String,
    words: Vec<String>,
    printed: Printed,
}

fn parse(line: &str) -> Option<Found> {
    let (label, printed) = bracketed(line).or_else(|| listed(line))?;
    let mut printed = printed;
    // One number is a statistic, and integers alone are ids, shapes or times.
    if printed.cells.len() < 2 || printed.cells.iter().all(|cell| cell.half_unit >= 0.5 && cell.value.is_finite()) {
        return None;
    }
    let words: Vec<String> = label
        .split(|c: char| c.is_whitespace() || matches!(c, '=' | ':' | ',' | '(' | ')' | '"' | '\'' | '|' | '*' | '`'))
        .map(|word| word.trim_matches(|c: char| matches!(c, '[' | ']' | '.' | '#' | '>' | '-')).to_owned())
        .filter(|word| !word.is_empty())
        .collect();
    if words.is_empty() || words.len() > MAX_WORDS {
        return None;
    }
    let (words, row, tail) = notes(&words);
    printed.row = row;
    if tail {
        from_the_end(&mut printed);
    }
    Some(Found { label: label.trim().trim_end_matches([':', '=']).trim().to_owned(), words, printed })
}

/// `label [1.0, 2.0, ...]`: the last brackets on the line that hold numbers.
fn bracketed(line: &str) -> Option<(&str, Printed)> {
    let starts: Vec<usize> = line.match_indices('[').map(|(at, _)| at).collect();
    starts.into_iter().find_map(|start| {
        let mut depth = 0_usize;
        let end = line[start..].char_indices().find_map(|(at, c)| {
            depth = if c == '[' {
                depth + 1
            } else if c == ']' {
                depth.saturating_sub(1)
            } else {
                depth
            };
            (c == ']' && depth == 0).then_some(start + at + 1)
        })?;
        let printed = Printed::parse(&line[start..end])?;
        (printed.cells.len() > 1).then(|| (line[..start].trim_end().trim_end_matches("tensor("), printed))
    })
}

/// `label: 0.1 0.2 0.3`: numbers after the last colon or equals sign that has some.
fn listed(line: &str) -> Option<(&str, Printed)> {
    line.match_indices([':', '=']).find_map(|(at, mark)| {
        let cells: Vec<Cell> = line[at + mark.len()..]
            .trim_start_matches('>')
            .split(|c: char| c.is_whitespace() || c == ',')
            .filter(|word| !word.is_empty())
            .zip(0_i64..)
            .map_while(|(word, index)| Cell::parse(&[index], word))
            .collect();
        (cells.len() > 1).then(|| (&line[..at], Printed::new(cells)))
    })
}

/// Takes out of the words what is not the name: `first 5`, `values`, `pos 3`, `last token`. Says which token the row
/// is, and whether the numbers are the row's end.
fn notes(words: &[String]) -> (Vec<String>, RowSaid, bool) {
    let (mut kept, mut row, mut tail) = (Vec::new(), RowSaid::Nothing, false);
    let mut index = 0;
    while let Some(word) = words.get(index) {
        let lower = word.to_ascii_lowercase();
        let next = words.get(index + 1).map(|next| next.to_ascii_lowercase());
        let number = next.as_deref().and_then(|next| next.parse::<usize>().ok());
        let (own, digits) = lower.split_at(lower.find(|c: char| c.is_ascii_digit()).unwrap_or(lower.len()));
        index += 1;
        match (lower.as_str(), number) {
            ("first" | "top", _) => index += usize::from(number.is_some()),
            ("last", Some(_)) => (tail, index) = (true, index + 1),
            ("last", None) if matches!(next.as_deref(), Some("token" | "tok" | "pos" | "position" | "row")) => {
                (row, index) = (RowSaid::Last, index + 1);
            }
            ("last", None) if !matches!(next.as_deref(), Some("layer" | "values")) => row = RowSaid::Last,
            ("pos" | "position" | "token" | "tok" | "row" | "t", Some(token)) => {
                (row, index) = (RowSaid::Token(token), index + 1);
            }
            _ if NOISE.contains(&lower.as_str()) => {}
            _ if matches!(own, "pos" | "token" | "tok" | "row") && digits.parse::<usize>().is_ok() => {
                row = RowSaid::Token(digits.parse().unwrap_or(0));
            }
            _ => kept.push(word.clone()),
        }
    }
    (kept, row, tail)
}

fn from_the_end(printed: &mut Printed) {
    let count = printed.cells.len() as i64;
    for cell in printed.cells.iter_mut().filter(|cell| cell.at.len() == 1) {
        cell.at[0] -= count;
    }
}

impl Found {
    /// The longest run of words that a map knows, where all that stands around it is the layer and noise: a line about
    /// the gate of an expert is not one about the gate.
    fn meaning(&self, names: &Names) -> Option<(Key, Order)> {
        let layer = Spelling::of(&self.words.join(" ")).layer;
        let count = self.words.len();
        let mut runs =
            (1..=count).rev().flat_map(|length| (0..=count - length).map(move |start| start..start + length));
        runs.find_map(|run| {
            let around = [&self.words[..run.start], &self.words[run.end..]].concat().join(" ");
            let quiet = Spelling::of(&around).words.iter().all(|word| word == "layer" || is_noise(word));
            let text = self.words[run].join(" ");
            let mut spelling = Spelling::of(&text);
            // A layer alone is the rest of a name; as a module's path it is the layer's output.
            if !quiet || (spelling.words == ["layer"] && !text.contains("layers.")) {
                return None;
            }
            let known = value(names.meaning(&text)).filter(|(key, _)| key.layer.is_some() || layer.is_none());
            spelling.layer = spelling.layer.or(layer);
            known.or_else(|| value(names.spelled(&spelling)))
        })
    }
}

fn is_noise(word: &str) -> bool {
    NOISE.contains(&word) || !word.chars().any(char::is_alphabetic)
}

fn value(meaning: Meaning) -> Option<(Key, Order)> {
    match meaning {
        Meaning::Value(key, order) => Some((key, order)),
        _ => None,
    }
}

/// Adds another line's row to a value.
fn merge(values: &mut BTreeMap<Key, Evidence>, key: Key, evidence: Evidence) {
    let Some(before) = values.get_mut(&key) else {
        values.insert(key, evidence);
        return;
    };
    let (Some(rows), Some(more), Known::Some(known), Known::Some(cells)) =
        (&mut before.rows, &evidence.rows, &mut before.known, &evidence.known)
    else {
        return;
    };
    // The same row again is a later pass, or the same line printed twice: the first one stands.
    if more.iter().any(|row| rows.contains(row)) {
        return;
    }
    let offset = rows.len() as i64;
    known.extend(cells.iter().map(|&(row, column, value)| (row + offset, column, value)));
    rows.extend(more);
    before.precision = before.precision.max(evidence.precision);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_read() {
        for (line, name, rows, cells, precision) in [
            ("Qcur-0: [0.1, 0.25, ...]", "Qcur-0", Some(vec![0]), vec![(0, 0, 0.1), (0, 1, 0.25)], 0.05),
            (
                "layer 0 q first 2: 0.123 -0.400",
                "Qcur.mul_mat-0",
                Some(vec![0]),
                vec![(0, 0, 0.123), (0, 1, -0.4)],
                5e-4,
            ),
            (
                "[DEBUG] Layer 3 attn_norm: first 2 = [0.10, 0.20], mean=0.02, rms=0.98",
                "attn_norm-3",
                Some(vec![0]),
                vec![(0, 0, 0.1), (0, 1, 0.2)],
                0.005,
            ),
            ("L2 K after RoPE pos 3: [1.5, 2.5]", "Kcur-2", Some(vec![3]), vec![(0, 0, 1.5), (0, 1, 2.5)], 0.05),
            ("logits (last token) = [1.5, 2.5]", "result_output", None, vec![(-1, 0, 1.5), (-1, 1, 2.5)], 0.05),
            (
                "layer 1 ffn_out last 2 values: 1.5 2.5",
                "ffn_out-1",
                Some(vec![0]),
                vec![(0, -2, 1.5), (0, -1, 2.5)],
                0.05,
            ),
            (
                "model.layers.0.self_attn.q_proj: tensor([ 1.5000e-02, -2.0000e-01])",
                "Qcur.mul_mat-0",
                Some(vec![0]),
                vec![(0, 0, 0.015), (0, 1, -0.2)],
                5e-6,
            ),
            (
                "blk.0 attn_norm token 2 => 0.5, 0.25",
                "attn_norm-0",
                Some(vec![2]),
                vec![(0, 0, 0.5), (0, 1, 0.25)],
                0.05,
            ),
        ] {
            let found = parse(line).unwrap_or_else(|| panic!("{line}"));
            let (key, order) = found.meaning(&Names::default()).unwrap_or_else(|| panic!("{line}: {:?}", found.words));
            assert_eq!(key.to_string(), name, "{line}");
            let evidence = found.printed.evidence(&key, order, None).unwrap();
            assert_eq!((evidence.rows, evidence.known), (rows, Known::Some(cells)), "{line}");
            assert_eq!(evidence.precision, precision, "{line}");
        }
    }

    #[test]
    fn other_lines_do_not() {
        for line in [
            "mean=0.02, rms=0.98",
            "Token ids: [1, 2, 3]",
            "shape: [4, 64]",
            "layer 0 expert gate: 0.5 0.25",
            "blk.1 mystery: 0.5 0.25",
            "layer 3: 0.5 0.25",
            "llama_perf_context_print: load time = 12.34 ms",
            "0.5 0.25",
        ] {
            assert!(parse(line).is_none_or(|found| found.meaning(&Names::default()).is_none()), "{line}");
        }
    }

    #[test]
    fn brackets_may_go_on() {
        let text = "Qcur-0:\n[0.1,\n 0.2]\nKcur-0 = [1.5,\n2.5]\nnext";
        assert_eq!(joined(text), ["Qcur-0: [0.1, 0.2]", "Kcur-0 = [1.5, 2.5]", "next"]);
    }

    #[test]
    fn ids_that_went_in_are_told_from_those_that_came_out() {
        for (line, expected) in [
            ("Token ids: [1, 279, 264]", Some(vec![1, 279, 264])),
            ("[DEBUG] input_ids = [[1 279]]", Some(vec![1, 279])),
            ("input_ids = [1 279]", Some(vec![1, 279])),
            ("Generated tokens: [5, 6]", None),
            ("tokens: [0.5, 1]", None),
            ("Qcur-0: [1, 2]", None),
            ("tokens: []", None),
        ] {
            assert_eq!(prompt_ids(line), expected, "{line}");
        }
    }
}
