//! Changes of a model file in memory: metadata, names of tensors, and tensors with other data. Only what changes is copied.

use std::collections::HashMap;

use candor::{Format, Gguf};
use candor_gguf::{Value, Writer};

use super::rows;

/// One change of a file.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Change {
    /// Gives a key of the metadata a value.
    Set(String, Value),
    /// Takes a key out.
    Unset(String),
    /// Has two tensors change their names.
    Swap(String, String),
    /// Gives a tensor another name.
    Rename(String, String),
    /// Leaves a tensor out.
    Leave(String),
    /// Gives a tensor the rows `order` of others, one below the other; of vectors the elements.
    Rows {
        /// The tensor.
        tensor: String,
        /// Where its rows come from; all of one format and width.
        of: Vec<String>,
        /// Which of their rows, counted through all of them, each row becomes.
        order: Vec<usize>,
    },
    /// Adds a number to every element.
    Add(String, f32),
    /// Multiplies every element.
    Multiply(String, f32),
    /// Takes `-exp(x)` of every element.
    NegativeExp(String),
    /// Reads a square matrix by columns.
    Transpose(String),
    /// Adds a vector of F32.
    Insert(String, Vec<f32>),
}

/// The file with changes, each of another thing; `None` where one finds nothing to change.
pub(super) fn changed(gguf: &Gguf, changes: &[Change]) -> Option<Gguf> {
    let mut metadata = gguf.metadata().clone();
    let mut names: HashMap<&str, Option<&str>> = HashMap::new();
    let mut made = Writer::new();
    let mut any = false;
    for change in changes {
        match change {
            Change::Set(key, value) => metadata.replace(key, value.clone()),
            Change::Unset(key) => metadata = metadata.without(key),
            Change::Swap(a, b) => {
                names.insert(a, Some(b));
                names.insert(b, Some(a));
            }
            Change::Rename(from, to) => {
                names.insert(from, Some(to));
            }
            Change::Leave(name) => {
                names.insert(name, None);
            }
            Change::Insert(name, values) => {
                let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
                made.tensor(name, Format::F32, &[values.len() as u64], bytes).ok()?;
                any = true;
            }
            Change::Rows { tensor, of, order } => {
                let info = gguf.tensor(tensor)?;
                made.tensor(tensor, info.format, &info.shape, rows::ordered(gguf, of, order)?).ok()?;
                any = true;
            }
            Change::Transpose(tensor) => {
                let info = gguf.tensor(tensor)?;
                let (format, data) = rows::transposed(gguf, info)?;
                made.tensor(tensor, format, &info.shape, data).ok()?;
                any = true;
            }
            Change::Add(tensor, _) | Change::Multiply(tensor, _) | Change::NegativeExp(tensor) => {
                let info = gguf.tensor(tensor)?;
                let new = |x: f32| match change {
                    Change::Add(_, addend) => x + addend,
                    Change::Multiply(_, factor) => x * factor,
                    _ => -x.exp(),
                };
                let (format, data) = rows::mapped(gguf, info, new)?;
                made.tensor(tensor, format, &info.shape, data).ok()?;
                any = true;
            }
        }
    }
    let renamed = match names.is_empty() {
        true => gguf.clone(),
        false => gguf.renamed(|name| names.get(name).copied().unwrap_or(Some(name)).map(str::to_owned)).ok()?,
    };
    let overlaid = match any {
        true => renamed.with_every_tensor_of(&Gguf::from_bytes(made.to_bytes().ok()?).ok()?),
        false => renamed,
    };
    Some(overlaid.with_metadata(metadata))
}
