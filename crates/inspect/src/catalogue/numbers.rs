//! Faults of numbers and kernels: what overflows, is cut off, or is never computed (entries 72, 74 and 77 of the catalogue).

use super::{ROW, is_matrix};
use crate::fault::{Edit, Fault, Fit, Steps};
use crate::replay::Place;
use crate::{Kind, Value};

/// The width of a kernel's tile.
fn tile(place: &Place<'_>) -> usize {
    place.variant as usize
}

/// Whether the operation's results may be large: products, and what the feed-forward multiplies.
fn is_large(place: &Place<'_>) -> bool {
    is_matrix(place) || matches!(place.node.kind, Kind::Mul | Kind::Add | Kind::Unary(_))
}

/// Copies a row of a value to others.
fn repeat(out: &mut Value, from: usize, to: std::ops::Range<usize>) -> bool {
    let hit = from < out.rows && to.start < to.end;
    if hit {
        let row = out.row(from).to_vec();
        to.for_each(|t| out.row_mut(t).copy_from_slice(&row));
    }
    hit
}

/// The rows.
pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "tile-outputs-lost",
        entry: "77",
        variants: &[32.0, 64.0, 128.0, 16.0],
        edits: &[Edit::Output(|out, _, place| {
            let whole = out.width / tile(place) * tile(place);
            if !is_matrix(place) || whole == out.width || whole == 0 {
                return false;
            }
            out.data.chunks_exact_mut(out.width).for_each(|row| row[whole..].fill(0.0));
            true
        })],
        cause: "outputs beyond the last whole tile of {} are not written",
        remedy: "handle the rest of the rows",
        source: "tinygrad/tinygrad#16603",
        ..ROW
    },
    Fault {
        name: "tile-inputs-lost",
        entry: "77",
        variants: &[32.0, 64.0, 128.0, 256.0],
        wants: |place| is_matrix(place) && place.node.kind.weight().is_some_and(|w| w.cols > tile(place)),
        edits: &[Edit::Weight(|w, place| {
            let whole = w.cols / tile(place) * tile(place);
            w.values.chunks_exact_mut(w.cols).for_each(|row| row[whole..].fill(0.0));
            whole != w.cols
        })],
        cause: "inputs beyond the last whole tile of {} are not added up",
        remedy: "handle the rest of the columns",
        source: "tinygrad/tinygrad#16603",
        ..ROW
    },
    Fault {
        name: "f16-accumulation",
        entry: "74",
        variants: &[0.0, 1.0],
        wants: is_large,
        edits: &[Edit::Output(|out, _, place| {
            if !is_large(place) {
                return false;
            }
            // As they are, or each rounded.
            let rounded = place.variant > 0.0;
            let mut overflow = false;
            for x in &mut out.data {
                if x.abs() > 65504.0 {
                    *x = f32::INFINITY * x.signum();
                    overflow = true;
                } else if rounded {
                    *x = half::f16::from_f32(*x).to_f32();
                }
            }
            overflow
        })],
        cause: "products and sums beyond 65504 overflow in F16",
        remedy: "accumulate and store products in f32, or BF16",
        source: "huggingface/transformers#5651, QwenLM/Qwen3#761, mlc-ai/mlc-llm#1870",
        ..ROW
    },
    Fault {
        name: "inputs-lost-at-the-end",
        entry: "77",
        variants: &[1.0, 16.0],
        fit: Some(Fit {
            range: (1.0, 8.0),
            steps: Steps::Whole,
            numbers: |_| vec![2.0, 4.0, 8.0, 24.0, 32.0, 48.0, 64.0, 96.0, 128.0, 256.0],
        }),
        wants: |place| is_matrix(place) && place.node.kind.weight().is_some_and(|w| w.cols > tile(place)),
        edits: &[Edit::Weight(|w, place| {
            let kept = w.cols.saturating_sub(tile(place));
            w.values.chunks_exact_mut(w.cols).for_each(|row| row[kept..].fill(0.0));
            kept > 0
        })],
        cause: "the last {} inputs are not added up",
        remedy: "let the loop run to the end of the row",
        source: "tinygrad/tinygrad#16603",
        ..ROW
    },
    Fault {
        name: "rows-lost-after-tile",
        entry: "77",
        variants: &[8.0, 16.0, 32.0, 64.0],
        wants: is_matrix,
        edits: &[Edit::Output(|out, _, place| {
            let end = place.tokens.prompt.min(out.rows);
            let hit = is_matrix(place) && place.node.per_token == 1 && tile(place) < end;
            if hit {
                (tile(place)..end).for_each(|t| out.row_mut(t).fill(0.0));
            }
            hit
        })],
        cause: "of a prompt the first {} tokens alone are computed; the rows of the others are zero",
        remedy: "go on with the next tile of rows, and handle the rest",
        source: "tinygrad/tinygrad#16603",
        ..ROW
    },
    Fault {
        name: "stale-row-at-decode",
        entry: "72",
        wants: is_matrix,
        edits: &[Edit::Output(|out, _, place| {
            let prompt = place.tokens.prompt;
            let hit = is_matrix(place) && place.node.per_token == 1 && prompt > 0 && place.rows() == out.rows;
            hit && repeat(out, prompt - 1, prompt..out.rows)
        })],
        cause: "a decoded token has the row of the prompt's last token: a buffer is not written again",
        remedy: "compute the new row, and look for a cached output or graph that is reused",
        source: "a fault of caches in general",
        ..ROW
    },
    Fault {
        name: "neighbouring-rows-exchanged",
        entry: "72",
        variants: &[0.0, 1.0, 2.0],
        wants: is_matrix,
        fit: Some(Fit { range: (3.0, 64.0), steps: Steps::Whole, numbers: |_| Vec::new() }),
        edits: &[Edit::Output(|out, _, place| {
            let (row, width) = (place.variant as usize, out.width);
            let hit = is_matrix(place) && place.node.per_token == 1 && row + 1 < out.rows;
            if hit {
                let (a, b) = out.data[row * width..(row + 2) * width].split_at_mut(width);
                a.swap_with_slice(b);
            }
            hit
        })],
        cause: "the rows of token {} and of the one after it are exchanged",
        remedy: "check the index of the row that each thread or tile writes",
        source: "a fault of kernels in general",
        ..ROW
    },
    Fault {
        name: "f16-saturation",
        entry: "74",
        variants: &[65504.0, 448.0],
        wants: is_large,
        edits: &[Edit::Output(|out, _, place| {
            let (limit, mut hit) = (place.variant as f32, false);
            if is_large(place) {
                for x in &mut out.data {
                    hit |= x.abs() > limit;
                    *x = x.clamp(-limit, limit);
                }
            }
            hit
        })],
        cause: "values beyond {} are cut off there: the largest number of the format that they are kept in (F16 65504, FP8 448)",
        remedy: "keep large values in f32 or BF16",
        source: "huggingface/transformers#19229, Blaizzy/mlx-vlm#293",
        ..ROW
    },
];
