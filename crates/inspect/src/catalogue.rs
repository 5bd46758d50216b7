//! The catalogue of known faults: one row each, tried one after the other where an operation does not follow from its
//! inputs. Sections follow research on why engines print gibberish; `entry` is the number there.

mod answers;
mod attention;
mod biases;
mod cache;
mod convolution;
mod dequantization;
mod embedding;
mod experts;
mod ffn;
mod latent;
mod loader;
mod masks;
mod mixing;
mod norm;
mod numbers;
mod output;
mod recurrence;
mod rotary;
mod router;
mod side_streams;
mod state_gate;
mod stream;
mod time_step;

use std::{ops::Range, rc::Rc};

use candor::Format;
use candor_ops::Tensor;

use crate::{
    Kind, Value,
    fault::{Fault, Fit, Harm, Steps},
    replay::{Matrix, Place, Side},
};

/// Every known fault.
pub fn catalogue() -> impl Iterator<Item = &'static Fault> {
    let parts = [
        loader::FAULTS,
        dequantization::FAULTS,
        biases::FAULTS,
        norm::FAULTS,
        rotary::FAULTS,
        attention::FAULTS,
        cache::FAULTS,
        latent::FAULTS,
        masks::FAULTS,
        answers::FAULTS,
        ffn::FAULTS,
        experts::FAULTS,
        embedding::FAULTS,
        router::FAULTS,
        stream::FAULTS,
        output::FAULTS,
        numbers::FAULTS,
        convolution::FAULTS,
        time_step::FAULTS,
        recurrence::FAULTS,
        state_gate::FAULTS,
        mixing::FAULTS,
        side_streams::FAULTS,
    ];
    parts.into_iter().flatten()
}

/// What rows have in common.
const ROW: Fault = Fault {
    name: "",
    entry: "",
    variants: &[0.0],
    fit: None,
    wants: any,
    edits: &[],
    harm: Harm::Harmful,
    cause: "",
    remedy: "",
    source: "",
};

/// Whole numbers up to that of a trace's tokens.
const UP_TO_TOKENS: Fit = Fit { range: (1.0, 512.0), steps: Steps::Whole, numbers: |_| Vec::new() };

/// Factors of any size.
const FACTORS: Fit = Fit { range: (1e-3, 1e3), steps: Steps::Factors, numbers: |_| Vec::new() };

fn any(_: &Place<'_>) -> bool {
    true
}

fn is_matrix(place: &Place<'_>) -> bool {
    place.node.kind.product().is_some()
}

fn is_layer_matrix(place: &Place<'_>) -> bool {
    is_matrix(place) && place.layer().is_some()
}

fn is_embedding(place: &Place<'_>) -> bool {
    matches!(place.node.kind, Kind::Embed(_))
}

/// Whether the weight is as many inputs as outputs wide, each matrix of a stack.
fn is_square(place: &Place<'_>) -> bool {
    place.node.kind.weight().is_some_and(|w| w.rows == w.cols * place.node.kind.matrices())
}

/// Reads memory `[out][in]` as if it were `[in][out]`, each matrix of a stack, and what several products share as a whole.
fn reshape(w: &mut Matrix, place: &Place<'_>) -> bool {
    if let Some((whole, part)) = fused(place).filter(|(whole, _)| whole.cols == w.cols && whole.rows > 1) {
        let (rows, first) = (whole.rows, part.start * w.cols);
        let other = |at: usize| whole.values[at % w.cols * rows + at / w.cols];
        w.values.iter_mut().enumerate().for_each(|(at, x)| *x = other(first + at));
        return true;
    }
    let (rows, cols) = (w.rows / place.node.kind.matrices(), w.cols);
    for matrix in w.values.chunks_exact_mut(rows * cols) {
        let old = matrix.to_vec();
        matrix.iter_mut().enumerate().for_each(|(at, x)| *x = old[at % cols * rows + at / cols]);
    }
    true
}

/// The tensor of which a weight with this name is some rows, and which.
fn rows_of(name: &str) -> Option<(&str, Range<usize>)> {
    let (whole, rows) = name.split_once('[')?;
    let (first, end) = rows.strip_suffix(']')?.split_once("..")?;
    Some((whole, first.parse().ok()?..end.parse().ok()?))
}

/// The whole weight that the operation reads some rows of, decoded, and which rows: products of queries, keys and values
/// may share a tensor, and so may gate and up.
fn fused(place: &Place<'_>) -> Option<(Matrix, Range<usize>)> {
    let (name, rows) = rows_of(&place.node.kind.weight()?.name)?;
    Some((tensor(place, name)?, rows))
}

/// The format and bytes of the weight.
fn raw<'a>(place: &Place<'a>) -> Option<(Format, &'a [u8])> {
    place.node.kind.weight().map(|weight| (weight.format, &*weight.bytes))
}

/// Another weight of the file, decoded.
fn tensor(place: &Place<'_>, name: &str) -> Option<Matrix> {
    let info = place.gguf.tensor(name)?;
    let cols = usize::try_from(*info.shape.first()?).ok()?;
    let rows = info.shape[1..].iter().product::<u64>() as usize;
    let bytes = place.gguf.data(info);
    Some(Matrix::decode(&Tensor { name: name.to_owned(), format: info.format, rows, cols, bytes }))
}

/// The weight that the operation has in another layer: of a fused tensor the same rows.
fn weight_of_layer(place: &Place<'_>, other: usize) -> Option<Vec<f32>> {
    let name = &place.node.kind.weight()?.name;
    let name = name.replace(&format!("blk.{}.", place.layer()?), &format!("blk.{other}."));
    let Some((whole, rows)) = rows_of(&name) else { return Some(tensor(place, &name)?.values) };
    let whole = tensor(place, whole)?;
    // A vector has one row.
    let width = if whole.rows == 1 { 1 } else { whole.cols };
    Some(whole.values.get(width * rows.start..width * rows.end)?.to_vec())
}

/// Whether two numbers are the same up to their last digits.
fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-3 * b.abs()
}

/// Lets decoded tokens keep what goes in, where the operation is one of these: what comes out of the prompt stays.
fn left_at_decode(out: &mut Value, inputs: &[Rc<Value>], place: &Place<'_>, is_one: bool) -> bool {
    let (first, width) = (place.tokens.prompt, out.width);
    let grows = place.node.side == Side::Tokens && place.node.per_token == 1 && out.rows == place.rows();
    let hit = is_one && grows && first > 0 && first < out.rows && inputs[0].data.len() == out.data.len();
    if hit {
        out.data[first * width..].copy_from_slice(&inputs[0].data[first * width..]);
    }
    hit
}

/// The sum of two values.
fn sum(values: &[Rc<Value>]) -> Option<Value> {
    let [x, y] = values else { return None };
    let data = x.data.iter().zip(&y.data).map(|(x, y)| x + y).collect();
    Some(Value { data, ..**x })
}

/// A value times a number.
fn scaled(x: &Value, factor: f64) -> Value {
    Value { data: x.data.iter().map(|&x| (f64::from(x) * factor) as f32).collect(), ..*x }
}

/// Where the F16 numbers of a format's blocks are, in bytes.
fn scale_fields(format: Format) -> &'static [usize] {
    match format {
        Format::F16 | Format::Q4_0 | Format::Q5_0 | Format::Q8_0 | Format::Iq4Nl | Format::Iq4Xs => &[0],
        Format::Q4_1 | Format::Q5_1 | Format::Q4K | Format::Q5K => &[0, 2],
        Format::Q2K => &[80, 82],
        Format::Q3K => &[108],
        Format::Q6K => &[208],
        _ => &[],
    }
}
