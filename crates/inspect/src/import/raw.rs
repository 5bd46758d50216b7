//! Raw little-endian f32 values, `.bin`: no header, so the shape is in the name (`Qcur-0_4x2048.bin`) or said with a
//! width. What llama.cpp's llama-debug writes, `llamacpp-MODEL.bin`, is the last token's logits, or a row for each token.

use std::{fs, path::Path};

use super::{
    ImportError, caps,
    dump::{Dump, Item},
    options::ReadOptions,
    printed::{Cell, Printed},
    safetensors::stem,
    tensor::{Element, Tensor},
};
use crate::{Evidence, Key, Known};

const FORMAT: &str = "raw f32";

/// Reads a `.bin` file.
pub(super) fn read(path: &Path, options: &ReadOptions) -> Result<Dump, ImportError> {
    let length = fs::metadata(path).map_err(ImportError::io(path))?.len();
    if length > caps::MAX_VALUES * 4 {
        let (what, most) = ("the file in bytes", caps::MAX_VALUES * 4);
        return Err(ImportError::TooLarge { path: path.to_owned(), what, found: length, most });
    }
    let bytes = fs::read(path).map_err(ImportError::io(path))?;
    let stem = stem(path);
    let mut dump = Dump::of(FORMAT);
    if stem.ends_with("-tokens") {
        let ids = Element::I32.ids(&bytes).filter(|_| bytes.len() % 4 == 0);
        dump.origin.tokens = Some(ids.ok_or_else(|| ImportError::malformed(path, FORMAT, "expected token ids"))?);
        dump.origin.prompt_tokens = dump.origin.tokens.as_ref().map(Vec::len);
        return Ok(dump);
    }
    if bytes.is_empty() || bytes.len() % 4 != 0 {
        let reason = format!("{} bytes are no whole number of f32 values", bytes.len());
        return Err(ImportError::malformed(path, FORMAT, reason));
    }
    let values = Element::F32.floats(&bytes);
    if ["llamacpp-", "pytorch-"].iter().any(|prefix| stem.starts_with(prefix)) && !stem.ends_with("-embeddings") {
        dump.origin.engine = stem.starts_with("llamacpp-").then(|| "llama.cpp".to_owned());
        dump.origin.model = stem.split_once('-').map(|(_, model)| model.to_owned());
        dump.known.push((Key::new("result_output", None), last_row(values)));
        return Ok(dump);
    }
    if let Some(known) = embeddings(path, &stem, options, &values) {
        dump.origin.engine = stem.starts_with("llamacpp-").then(|| "llama.cpp".to_owned());
        dump.known.push(known);
        return Ok(dump);
    }
    let (name, shape) = named_shape(&stem);
    let shape = match (shape, options.width) {
        (Some(shape), _) => shape,
        (None, Some(width)) if width > 0 && values.len().is_multiple_of(width) => vec![values.len() / width, width],
        (None, Some(width)) => {
            let reason = format!("{} values are no rows of {width}", values.len());
            return Err(ImportError::malformed(path, FORMAT, reason));
        }
        (None, None) => {
            let (name, values) = (name.to_owned(), values.len());
            return Err(ImportError::Width { path: path.to_owned(), name, values });
        }
    };
    let expected = caps::elements(path, &shape)?;
    if expected != values.len() {
        let reason = format!("{} values, expected {expected} for shape {shape:?}", values.len());
        return Err(ImportError::malformed(path, FORMAT, reason));
    }
    dump.items.push((name.to_owned(), Item::Tensor(Tensor { shape, values })));
    Ok(dump)
}

/// The rows that llama-debug writes with `--embedding`, `llamacpp-MODEL-embeddings.bin`, where there is one for each token:
/// of the ids that are given, or of the file beside it.
fn embeddings(path: &Path, stem: &str, options: &ReadOptions, values: &[f32]) -> Option<(Key, Evidence)> {
    let written = ["llamacpp-", "pytorch-"].iter().any(|prefix| stem.starts_with(prefix));
    if !written || !stem.ends_with("-embeddings") || options.width.is_some() {
        return None;
    }
    let (key, width) = options.wiring.as_ref()?.embedding()?;
    let beside = || fs::metadata(path.with_file_name(format!("{stem}-tokens.bin"))).ok().map(|file| file.len() / 4);
    let tokens = options.tokens.as_ref().map(|tokens| tokens.len() as u64).or_else(beside)?;
    (tokens * width as u64 == values.len() as u64).then(|| (key, Evidence::all(width, values.to_vec())))
}

/// `Qcur-0_4x2048` to `Qcur-0` and `[4, 2048]`.
fn named_shape(stem: &str) -> (&str, Option<Vec<usize>>) {
    let Some((name, shape)) = stem.rsplit_once(['_', '.', '@']) else { return (stem, None) };
    let dims: Result<Vec<usize>, _> = shape.split('x').map(str::parse).collect();
    match dims {
        Ok(dims) if dims.len() > 1 => (name, Some(dims)),
        _ => (stem, None),
    }
}

/// A row that is the last token's, whichever that is.
fn last_row(values: Vec<f32>) -> Evidence {
    let width = values.len();
    let cells = (0_i64..).zip(values).map(|(column, value)| (-1, column, value)).collect();
    Evidence { width, rows: None, known: Known::Some(cells), sum: None, precision: 0.0 }
}

/// Reads the text llama-debug writes beside its `.bin`: a line `index: logit` per token of the vocabulary.
pub(super) fn logits_text(text: &str) -> Option<Printed> {
    let mut cells = Vec::new();
    for (index, line) in text.lines().filter(|line| !line.trim().is_empty()).enumerate() {
        let (at, value) = line.split_once(':')?;
        let at: usize = at.trim().parse().ok()?;
        (at == index).then_some(())?;
        cells.push(Cell::parse(&[at as i64], value.trim())?);
    }
    (cells.len() > 1).then(|| Printed::new(cells))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_in_names() {
        for (stem, name, shape) in [
            ("Qcur-0_4x2048", "Qcur-0", Some(vec![4, 2048])),
            ("l_out-3.2x8", "l_out-3", Some(vec![2, 8])),
            ("kq-0_2x4x4", "kq-0", Some(vec![2, 4, 4])),
            ("Qcur-0", "Qcur-0", None),
            ("ffn_out-1", "ffn_out-1", None),
            ("a_x", "a_x", None),
        ] {
            assert_eq!(named_shape(stem), (name, shape), "{stem}");
        }
    }
}
