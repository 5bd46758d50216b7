//! How values lie in the file: the header before them, and the turn from rows to heads that attention scores take.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::Path,
};

use serde_json::json;

use super::{
    error::WriteError,
    laid::{Laid, token_count},
    metadata,
};
use crate::Origin;

/// Whether a value has a row of positions per head.
pub(super) fn is_scores(name: &str) -> bool {
    matches!(name, "kq" | "kq_soft_max")
}

/// What follows the name of a file that is not whole.
pub(super) const WRITING: &str = ".writing";

/// Writes header and values to a file beside `path` that then takes its place, so that `path` is never half a trace.
/// `emit` writes the elements of the value with the given index, in file order.
pub(super) fn save(
    path: &Path,
    values: &[Laid],
    origin: &Origin,
    emit: impl FnMut(usize, &mut BufWriter<File>) -> io::Result<()>,
) -> Result<(), WriteError> {
    let mut draft = path.as_os_str().to_owned();
    draft.push(WRITING);
    let draft = Path::new(&draft);
    let written = fill(draft, values, origin, emit).and_then(|()| std::fs::rename(draft, path));
    if written.is_err() {
        // The write's own error is the one to report.
        let _ = std::fs::remove_file(draft);
    }
    written.map_err(WriteError::io(path))
}

fn fill(
    draft: &Path,
    values: &[Laid],
    origin: &Origin,
    mut emit: impl FnMut(usize, &mut BufWriter<File>) -> io::Result<()>,
) -> io::Result<()> {
    let mut header = serde_json::Map::new();
    let tokens = token_count(origin, values.iter());
    header.insert("__metadata__".to_owned(), json!(metadata::of(origin, values, tokens)));
    let mut start = 0_u64;
    for laid in values {
        let end = start + laid.bytes();
        let entry = json!({ "dtype": "F32", "shape": laid.shape(), "data_offsets": [start, end] });
        header.insert(laid.key.to_string(), entry);
        start = end;
    }
    let mut header = serde_json::to_vec(&header)?;
    // Tensors begin at a multiple of 8, as safetensors' own writer has it.
    header.resize(header.len().next_multiple_of(8), b' ');
    let mut out = BufWriter::with_capacity(1 << 20, File::create(draft)?);
    out.write_all(&(header.len() as u64).to_le_bytes())?;
    out.write_all(&header)?;
    for index in 0..values.len() {
        emit(index, &mut out)?;
    }
    out.flush()
}

/// Writes the elements `[rows, width]` of a value in file order.
pub(super) fn write_rows(laid: &Laid, elements: &[f32], out: &mut impl Write) -> io::Result<()> {
    let Some(heads) = laid.heads.filter(|&heads| heads > 0 && laid.width > 0) else {
        return write_floats(elements, out);
    };
    let positions = laid.width / heads;
    for head in 0..heads {
        for row in elements.chunks_exact(laid.width) {
            write_floats(&row[head * positions..][..positions], out)?;
        }
    }
    Ok(())
}

pub(super) fn write_floats(values: &[f32], out: &mut impl Write) -> io::Result<()> {
    values.iter().try_for_each(|value| out.write_all(&value.to_le_bytes()))
}

/// `[heads, rows, positions]` as the file has it to `[rows, heads * positions]` as memory has it.
pub(super) fn rows_from_heads(values: &[f32], [heads, rows, positions]: [usize; 3]) -> Vec<f32> {
    let mut turned = Vec::with_capacity(values.len());
    for row in 0..rows {
        for head in 0..heads {
            turned.extend_from_slice(&values[(head * rows + row) * positions..][..positions]);
        }
    }
    turned
}
