//! Faults of numbers and kernels: what overflows, is cut off, or is never computed (entries 72, 74 and 77 of the catalogue).

use std::rc::Rc;

use super::{
    row::{FACTORS, ROW, UP_TO_TOKENS},
    weights::is_matrix,
};
use crate::fault::{Edit, Fault, Fit, Steps};
use crate::replay::Place;
use crate::{Kind, Node, Value};

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

/// Whether the operation ends a product: adds its bias, or is the product where it has none.
fn ends_product(place: &Place<'_>) -> bool {
    let is_bias = |node: &Node| matches!(node.kind, Kind::Bias(_));
    if is_bias(place.node) {
        return place.node.inputs.first().is_some_and(|&input| place.graph.nodes[input].kind.product().is_some());
    }
    is_matrix(place) && !place.readers().any(|(_, reader)| is_bias(reader))
}

/// Whether it ends the last product of a feed-forward.
fn ends_ffn(place: &Place<'_>) -> bool {
    place.weight().starts_with("ffn_down") && place.node.per_token == 1 && ends_product(place)
}

/// Zeroes the last columns of each row.
fn zero_columns(out: &mut Value, hit: bool, count: usize) -> bool {
    let hit = hit && count > 0 && count < out.width;
    if hit {
        let kept = out.width - count;
        out.data.chunks_exact_mut(out.width).for_each(|row| row[kept..].fill(0.0));
    }
    hit
}

/// Zeroes the last rows of a prompt.
fn zero_rows(out: &mut Value, hit: bool, place: &Place<'_>) -> bool {
    let (end, count) = (place.tokens.prompt.min(out.rows), tile(place));
    let hit = hit && place.node.per_token == 1 && count > 0 && count < end;
    if hit {
        (end - count..end).for_each(|t| out.row_mut(t).fill(0.0));
    }
    hit
}

/// Makes every number of a row none.
fn spoil(out: &mut Value, hit: bool, place: &Place<'_>) -> bool {
    let hit = hit && place.node.per_token == 1 && tile(place) < out.rows;
    if hit {
        out.row_mut(tile(place)).fill(f32::NAN);
    }
    hit
}

/// Tokens by index: of few all, whatever lies between two values of the trace.
fn each_token(place: &Place<'_>) -> Vec<f64> {
    (0..place.rows().min(24)).map(|row| row as f64).collect()
}

/// Tokens by index.
const TOKENS: Fit = Fit { range: (0.0, 512.0), steps: Steps::Whole, numbers: |_| Vec::new() };

/// Sizes of what is left over of rows that are computed by tiles.
const REST: Fit = Fit {
    range: (1.0, 8.0),
    steps: Steps::Whole,
    numbers: |place| if is_matrix(place) || ends_product(place) { REMAINS.to_vec() } else { Vec::new() },
};

/// Such sizes.
const REMAINS: [f64; 17] =
    [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0, 96.0, 128.0, 256.0];

/// Whether the operation is a product whose inputs are dealt out to devices.
fn shared_out(place: &Place<'_>) -> bool {
    matches!(place.node.kind, Kind::MatMul(_)) && matches!(place.weight(), "attn_output" | "ffn_down")
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
        name: "outputs-lost-at-the-end",
        entry: "77",
        variants: &[1.0, 5.0],
        fit: Some(REST),
        wants: is_matrix,
        edits: &[Edit::Output(|out, _, place| zero_columns(out, is_matrix(place), tile(place)))],
        cause: "the last {} outputs of a product are not computed: they stay zero",
        remedy: "let the loop run to the end of the matrix; handle the rest of the rows behind the last whole tile",
        source: "tinygrad/tinygrad#16603",
        ..ROW
    },
    Fault {
        name: "outputs-lost-behind-bias",
        entry: "77",
        variants: &[1.0, 5.0],
        fit: Some(REST),
        wants: |place| ends_product(place) && !is_matrix(place),
        edits: &[Edit::Output(|out, _, place| {
            zero_columns(out, ends_product(place) && !is_matrix(place), tile(place))
        })],
        cause: "the last {} outputs of a product with a bias are zero: neither the product nor its bias is written there",
        remedy: "let the loop run to the end of the matrix; handle the rest of the rows behind the last whole tile",
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
        name: "rows-lost-at-the-end",
        entry: "77",
        variants: &[1.0],
        fit: Some(UP_TO_TOKENS),
        wants: ends_product,
        edits: &[Edit::Output(|out, _, place| zero_rows(out, ends_product(place), place))],
        cause: "of a prompt the rows of the last {} tokens are not computed: they are zero",
        remedy: "let the loop over tokens run to the end of the batch",
        source: "a fault of kernels in general",
        ..ROW
    },
    Fault {
        name: "ffn-rows-lost-at-the-end",
        entry: "77",
        variants: &[1.0],
        fit: Some(Fit {
            numbers: |place| if ends_ffn(place) { each_token(place) } else { Vec::new() },
            ..UP_TO_TOKENS
        }),
        wants: ends_ffn,
        edits: &[Edit::Output(|out, _, place| zero_rows(out, ends_ffn(place), place))],
        cause: "the feed-forward gives nothing for the last {} tokens of a prompt, attention does",
        remedy: "let the loop over tokens run to the end of the batch",
        source: "a fault of kernels in general",
        ..ROW
    },
    Fault {
        name: "first-row-lost",
        entry: "77",
        wants: ends_product,
        edits: &[Edit::Output(|out, _, place| {
            let hit = ends_product(place) && place.node.per_token == 1 && out.rows > 1;
            if hit {
                out.row_mut(0).fill(0.0);
            }
            hit
        })],
        cause: "the row of the first token is not computed: it is zero",
        remedy: "let the loop over tokens begin at 0",
        source: "a fault of kernels in general",
        ..ROW
    },
    Fault {
        name: "attention-row-not-a-number",
        entry: "74",
        variants: &[4.0],
        fit: Some(Fit {
            numbers: |place| if matches!(place.node.kind, Kind::Mix(_)) { each_token(place) } else { Vec::new() },
            ..TOKENS
        }),
        edits: &[Edit::Output(|out, _, place| spoil(out, matches!(place.node.kind, Kind::Mix(_)), place))],
        cause: "attention of token {} is NaN: its softmax divides zero by zero, or subtracts infinite scores",
        remedy: "a token sees itself at least; where nothing is seen, write zeros instead of dividing by a sum of zero",
        source: "a fault of kernels in general",
        ..ROW
    },
    Fault {
        name: "row-not-a-number",
        entry: "74",
        variants: &[4.0],
        fit: Some(TOKENS),
        edits: &[Edit::Output(|out, _, place| {
            let hit = is_matrix(place) || matches!(place.node.kind, Kind::Bias(_) | Kind::Norm { .. });
            spoil(out, hit, place)
        })],
        cause: "the row of token {} is NaN from a product or norm on, whose inputs are numbers",
        remedy: "look for a buffer that is read before it is written, and for a division by zero",
        source: "a fault of kernels in general",
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
    Fault {
        name: "inputs-saturate-in-8-bits",
        entry: "74",
        variants: &[2.0, 1.0, 4.0],
        fit: Some(FACTORS),
        edits: &[
            Edit::Wiring(|_, place| is_matrix(place)),
            Edit::Inputs(|inputs, place| {
                let (limit, mut hit) = (place.variant, false);
                if is_matrix(place) {
                    let mut x = (*inputs[0]).clone();
                    for x in &mut x.data {
                        hit |= f64::from(x.abs()) > limit;
                        let level = (f64::from(*x) * 127.0 / limit).round_ties_even().clamp(-127.0, 127.0);
                        *x = (level * limit / 127.0) as f32;
                    }
                    inputs[0] = Rc::new(x);
                }
                hit
            }),
        ],
        cause: "what products read is rounded to 8 bits from -{} to {}, and cut off there",
        remedy: "choose the scale by the largest magnitude of each block or row",
        source: "Xiao et al. 2022 (SmoothQuant): static scales of activations",
        ..ROW
    },
    Fault {
        name: "second-device-missing",
        entry: "77",
        wants: shared_out,
        edits: &[Edit::Weight(|w, _| {
            let kept = w.cols / 2;
            w.values.chunks_exact_mut(w.cols).for_each(|row| row[kept..].fill(0.0));
            kept > 0
        })],
        cause: "the second half of the inputs of attn_output and ffn_down is not added up: what a second device computed is lost",
        remedy: "add the results of all devices (all-reduce) behind each of the two products",
        source: "Shoeybi et al. 2019 (Megatron-LM); a fault of tensor parallelism in general",
        ..ROW
    },
];
