//! The text of llama.cpp's llama-eval-callback and llama-debug: a header per node of the graph, the corners of its value
//! at four decimals, its sum. Which node is which value, and how passes follow each other, is `passes`.
//!
//! ```text
//! common_debug_cb_eval:    Qcur-0 = (f32)    MUL_MAT(blk.0.attn_q.weight{64, 64, 1, 1}, attn_norm-0{64, 5, 1, 1}}) = {64, 5, 1, 1}
//!     [
//!         [
//!             [      0.0260,       0.0299,       0.0009,    ...,       0.0173,       0.0058,      -0.0157  ],
//!         ],
//!     ]
//!     sum = -4.452065
//! ```
//! Older versions say `ggml_debug:`; before August 2025 (llama.cpp pull request 15637) the sum was of the printed
//! elements only, which shows, and such a sum is left out.

mod node;
mod passes;

use std::{fs, path::Path};

use super::{ImportError, caps, dump::Dump, options::ReadOptions, printed::Printed};
use crate::names::Names;
use node::Node;

const FORMAT: &str = "llama.cpp eval-callback";
/// What opens a header, new and old.
const MARKS: [&str; 2] = ["common_debug_cb_eval:", "ggml_debug:"];

/// Whether a text has a header of this format.
pub(super) fn marks(text: &str) -> bool {
    text.lines().any(|line| header(line).is_some())
}

/// Reads a log.
pub(super) fn read(path: &Path, options: &ReadOptions) -> Result<Dump, ImportError> {
    let text = read_text(path)?;
    let nodes = nodes(&text);
    if nodes.is_empty() {
        return Err(ImportError::malformed(path, FORMAT, "no node with its values in it"));
    }
    let mut dump = Dump::of(FORMAT);
    dump.origin.engine = Some("llama.cpp".to_owned());
    passes::assemble(&nodes, &Names::of(options), &mut dump);
    Ok(dump)
}

/// A text file as it is, broken characters replaced.
pub(super) fn read_text(path: &Path) -> Result<String, ImportError> {
    let found = fs::metadata(path).map_err(ImportError::io(path))?.len();
    if found > caps::MAX_TEXT {
        let (what, most) = ("the text in bytes", caps::MAX_TEXT);
        return Err(ImportError::TooLarge { path: path.to_owned(), what, found, most });
    }
    let bytes = fs::read(path).map_err(ImportError::io(path))?;
    Ok(plain(&String::from_utf8_lossy(&bytes)))
}

/// Text without terminal colours.
fn plain(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let codes = part.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';');
        plain.push_str(codes.strip_prefix(|c: char| c.is_ascii_alphabetic()).unwrap_or(codes));
    }
    plain
}

fn nodes(text: &str) -> Vec<Node> {
    let mut nodes = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let Some(mut node) = header(line) else { continue };
        let mut body = String::new();
        let mut sums = Vec::new();
        let mut damaged = false;
        while let Some(line) = lines.next_if(|line| !MARKS.iter().any(|mark| line.contains(mark))) {
            if let Some(value) = sum(line) {
                sums.push(value);
            } else if let Some(part) = part(line).filter(|_| sums.is_empty()) {
                damaged |= is_damaged(part);
                body.push_str(part);
                body.push('\n');
            }
        }
        // A fourth dimension prints one array after the other; none of our values has one.
        if node.ne[3] == 1 && !damaged {
            node.printed = Printed::parse(&body);
            node.sum = sums.first().copied().filter(|&sum| !is_sum_of_printed(&node, sum));
        }
        nodes.push(node);
    }
    nodes
}

/// Reads `PREFIX  NAME = (type)  OP(src{ne}, src{ne}}) = {ne0, ne1, ne2, ne3}`.
fn header(line: &str) -> Option<Node> {
    let rest = MARKS.iter().find_map(|mark| Some(&line[line.find(mark)? + mark.len()..]))?;
    let (name, rest) = rest.split_once(" = (")?;
    let (kind, rest) = rest.split_once(')')?;
    let (op, rest) = rest.split_once('(')?;
    let (sources, shape) = rest.rsplit_once("= {")?;
    let ne = dims(shape.trim_end().strip_suffix('}')?)?;
    let mut parts = sources.split('{').peekable();
    let (mut names, mut shapes) = (Vec::new(), Vec::new());
    while let Some(part) = parts.next() {
        let name = part.rsplit_once("}, ").map_or(part, |(_, name)| name).trim();
        if name.chars().any(char::is_alphabetic) {
            names.push(undecorated(name));
            shapes.push(parts.peek().and_then(|next| dims(next.split_once('}')?.0)));
        }
    }
    let [name, kind, op] = [name, kind, op].map(|text| text.trim().to_owned());
    Some(Node { name: undecorated(&name), kind, op, sources: names, shapes, ne, printed: None, sum: None })
}

/// `64, 5, 1, 1`.
fn dims(text: &str) -> Option<[usize; 4]> {
    let ne: Option<Vec<usize>> = text.split(',').map(|dim| dim.trim().parse().ok()).collect();
    ne?.try_into().ok()
}

/// Whether a row lacks a comma: llama.cpp's logger may print an entry twice in place of the next.
fn is_damaged(part: &str) -> bool {
    part.split(',').any(|entry| entry.trim_matches(['[', ']', ' ', '\t']).contains([' ', '\t']))
}

/// `CUDA0#norm-0#0`, the scheduler's copy of `norm-0` on a device, by its own name.
fn undecorated(name: &str) -> String {
    match name.split('#').collect::<Vec<_>>()[..] {
        [_, inner, _] => inner.to_owned(),
        _ => name.to_owned(),
    }
}

/// `sum = X` or `sum    = X`; `sum_sq` is not asked for.
fn sum(line: &str) -> Option<f64> {
    line.trim().strip_prefix("sum")?.trim_start().strip_prefix('=')?.trim().parse().ok()
}

/// The part of a line that belongs to a printed array.
fn part(line: &str) -> Option<&str> {
    let start = line.find(['[', ']']).or_else(|| line.find("..."))?;
    let part = line[start..].trim_end();
    part.chars().all(|c| c.is_ascii_digit() || "[]., -+eEnaif\t".contains(c)).then_some(part)
}

/// Whether a sum is only of what is printed although not all is.
fn is_sum_of_printed(node: &Node, sum: f64) -> bool {
    let Some(printed) = &node.printed else { return false };
    let complete = node.ne.iter().fold(1_usize, |all, &dim| all.saturating_mul(dim)) == printed.cells.len();
    let of_printed: f64 = printed.cells.iter().map(|cell| f64::from(cell.value)).sum();
    let slack: f64 = printed.cells.iter().map(|cell| cell.half_unit).sum::<f64>() + 1e-5 * of_printed.abs() + 1e-6;
    !complete && (sum - of_printed).abs() <= slack
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_read() {
        for (line, name, op, sources, ne) in [
            (
                "ggml_debug:                 inp_embd = (f32)   GET_ROWS(token_embd.weight{64, 300, 1, 1}, \
                 inp_tokens{5, 1, 1, 1}}) = {64, 5, 1, 1}",
                "inp_embd",
                "GET_ROWS",
                vec!["token_embd.weight", "inp_tokens"],
                [64, 5, 1, 1],
            ),
            (
                "0.01 D common_debug_cb_eval:        Qcur-0 (reshaped) = (f32)    RESHAPE(Qcur-0{64, 5, 1, 1}, }) = \
                 {16, 4, 5, 1} ",
                "Qcur-0 (reshaped)",
                "RESHAPE",
                vec!["Qcur-0"],
                [16, 4, 5, 1],
            ),
            (
                "ggml_debug: norm-0 = (f32) NORM(CUDA0#inp_embd#0{64, 1, 1, 1}, }) = {64, 1, 1, 1}",
                "norm-0",
                "NORM",
                vec!["inp_embd"],
                [64, 1, 1, 1],
            ),
        ] {
            let node = header(line).unwrap();
            assert_eq!((node.name.as_str(), node.op.as_str(), node.ne), (name, op, ne));
            assert_eq!(node.sources, sources);
            assert_eq!((node.kind.as_str(), node.shapes.len()), ("f32", sources.len()));
            assert!(node.shapes.iter().all(Option::is_some));
        }
        for line in
            ["ggml_debug: a = (f32) B(c{1}) = {1, 2}", "ggml_debug: nothing", "Qcur-0 = (f32) A() = {1, 1, 1, 1}"]
        {
            assert_eq!(header(line), None);
        }
    }

    #[test]
    fn rows_without_a_comma_are_dropped() {
        let header = "ggml_debug: attn_norm-0 = (f32) MUL(norm-0{4, 1, 1, 1}, w{4, 1, 1, 1}}) = {4, 1, 1, 1}\n";
        for (row, read) in [("[ 1.0, 2.0, 3.0, 4.0 ]", true), ("[ 1.0, 2.0      2.0, 4.0 ]", false)] {
            let nodes = nodes(&format!("{header}[\n [\n  {row},\n ],\n]\nsum = 10.0\n"));
            assert_eq!(nodes[0].printed.is_some(), read, "{row}");
        }
    }

    #[test]
    fn sums_of_what_is_printed_are_dropped() {
        let header = "ggml_debug: attn_norm-0 = (f32) MUL(norm-0{8, 1, 1, 1}, w{8, 1, 1, 1}}) = {8, 1, 1, 1}\n";
        let body = "[\n [\n  [ 1.0000, 2.0000, 3.0000, ..., 6.0000, 7.0000, 8.0000],\n ],\n]\n";
        for (sum, expected) in [("27.000000", None), ("36.000000", Some(36.0)), ("27.001", Some(27.001))] {
            let nodes = nodes(&format!("{header}{body}sum = {sum}\n"));
            assert_eq!(nodes[0].sum, expected, "{sum}");
        }
    }
}
