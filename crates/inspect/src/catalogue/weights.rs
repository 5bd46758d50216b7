//! The weight of an operation as a fault may read it: reshaped, of another layer, as one part of a tensor.

use std::ops::Range;

use candor::Format;
use candor_ops::Tensor;

use crate::{
    Kind,
    replay::{Matrix, Place},
};

pub(super) fn is_matrix(place: &Place<'_>) -> bool {
    place.node.kind.product().is_some()
}

pub(super) fn is_layer_matrix(place: &Place<'_>) -> bool {
    is_matrix(place) && place.layer().is_some()
}

pub(super) fn is_embedding(place: &Place<'_>) -> bool {
    matches!(place.node.kind, Kind::Embed(_))
}

/// Whether the weight is as many inputs as outputs wide, each matrix of a stack.
pub(super) fn is_square(place: &Place<'_>) -> bool {
    place.node.kind.weight().is_some_and(|w| w.rows == w.cols * place.node.kind.matrices())
}

/// Reads memory `[out][in]` as if it were `[in][out]`, each matrix of a stack, and what several products share as a whole.
pub(super) fn reshape(w: &mut Matrix, place: &Place<'_>) -> bool {
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
pub(super) fn fused(place: &Place<'_>) -> Option<(Matrix, Range<usize>)> {
    let (name, rows) = rows_of(&place.node.kind.weight()?.name)?;
    Some((tensor(place, name)?, rows))
}

/// The format and bytes of the weight.
pub(super) fn raw<'a>(place: &Place<'a>) -> Option<(Format, &'a [u8])> {
    place.node.kind.weight().map(|weight| (weight.format, &*weight.bytes))
}

/// Another weight of the file, decoded.
pub(super) fn tensor(place: &Place<'_>, name: &str) -> Option<Matrix> {
    let info = place.gguf.tensor(name)?;
    let cols = usize::try_from(*info.shape.first()?).ok()?;
    let rows = info.shape[1..].iter().product::<u64>() as usize;
    let bytes = place.gguf.data(info);
    Some(Matrix::decode(&Tensor { name: name.to_owned(), format: info.format, rows, cols, bytes }))
}

/// The weight that the operation has in another layer: of a fused tensor the same rows.
pub(super) fn weight_of_layer(place: &Place<'_>, other: usize) -> Option<Vec<f32>> {
    let name = &place.node.kind.weight()?.name;
    let name = name.replace(&format!("blk.{}.", place.layer()?), &format!("blk.{other}."));
    let Some((whole, rows)) = rows_of(&name) else { return Some(tensor(place, &name)?.values) };
    let whole = tensor(place, whole)?;
    // A vector has one row.
    let width = if whole.rows == 1 { 1 } else { whole.cols };
    Some(whole.values.get(width * rows.start..width * rows.end)?.to_vec())
}

/// Where the F16 numbers of a format's blocks are, in bytes.
pub(super) fn scale_fields(format: Format) -> &'static [usize] {
    match format {
        Format::F16 | Format::Q4_0 | Format::Q5_0 | Format::Q8_0 | Format::Iq4Nl | Format::Iq4Xs => &[0],
        Format::Q4_1 | Format::Q5_1 | Format::Q4K | Format::Q5K => &[0, 2],
        Format::Q2K => &[80, 82],
        Format::Q3K => &[108],
        Format::Q6K => &[208],
        _ => &[],
    }
}
