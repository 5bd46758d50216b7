//! Data of tensors in another order. Rows move as blocks, without being decoded.

use candor::{Format, Gguf};
use candor_gguf::TensorInfo;

/// Elements of one unit that moves: a row, or one element of a vector.
fn unit(info: &TensorInfo) -> Option<usize> {
    match info.shape.as_slice() {
        [_] => (info.format.block_len() == 1).then(|| info.format.block_bytes()),
        [cols, ..] => info.format.row_bytes(*cols as usize),
        [] => None,
    }
}

/// The rows `order` of some tensors, one below the other. `None` where these differ in format or width, or have fewer rows.
pub(super) fn ordered(gguf: &Gguf, of: &[String], order: &[usize]) -> Option<Vec<u8>> {
    let infos: Vec<&TensorInfo> = of.iter().map(|name| gguf.tensor(name)).collect::<Option<_>>()?;
    let first = infos.first()?;
    let size = unit(first).filter(|&size| size > 0)?;
    if infos.iter().any(|info| info.format != first.format || unit(info) != Some(size)) {
        return None;
    }
    let data: Vec<_> = infos.iter().map(|info| gguf.read_data(info)).collect::<Result<_, _>>().ok()?;
    let mut out = Vec::with_capacity(order.len() * size);
    for &row in order {
        let mut start = row * size;
        let part = data.iter().find(|part| {
            let here = start < part.len();
            if !here {
                start -= part.len();
            }
            here
        })?;
        out.extend_from_slice(part.get(start..start + size)?);
    }
    Some(out)
}

/// A tensor with a function of each element, in its format where that can be written, else in F16.
pub(super) fn mapped(gguf: &Gguf, info: &TensorInfo, new: impl Fn(f32) -> f32) -> Option<(Format, Vec<u8>)> {
    let mut values = decoded(gguf, info)?;
    values.iter_mut().for_each(|value| *value = new(*value));
    encoded(info.format, &values)
}

/// A square matrix by columns. `None` of others.
pub(super) fn transposed(gguf: &Gguf, info: &TensorInfo) -> Option<(Format, Vec<u8>)> {
    let [cols, rows] = info.shape[..] else { return None };
    if cols != rows {
        return None;
    }
    let (size, mut values) = (cols as usize, decoded(gguf, info)?);
    for row in 0..size {
        for col in 0..row {
            values.swap(row * size + col, col * size + row);
        }
    }
    encoded(info.format, &values)
}

fn decoded(gguf: &Gguf, info: &TensorInfo) -> Option<Vec<f32>> {
    let data = gguf.read_data(info).ok()?;
    let mut values = vec![0.0; usize::try_from(info.elements()).ok()?];
    info.format.decode(&data, &mut values);
    Some(values)
}

/// Numbers in a format. What was rounded to few bits would be rounded again, so that it becomes F16.
fn encoded(format: Format, values: &[f32]) -> Option<(Format, Vec<u8>)> {
    let format = if format.block_len() == 1 { format } else { Format::F16 };
    let mut bytes = vec![0; format.row_bytes(values.len())?];
    format.encode(values, &mut bytes).ok()?;
    Some((format, bytes))
}
