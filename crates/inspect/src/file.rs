//! Candor's own trace file, version 1: a safetensors file of F32 tensors named by [`Key`], with the origin in its
//! metadata. How values reach it step by step is [`TraceWriter`]; other engines' dumps are `crate::import`.
//!
//! Shapes are `[rows, width]`; attention scores are `[heads, rows, positions]`. Rows are the tokens from the first on,
//! unless metadata lists others: `rows` for all values, `output_rows` for `result_norm` and `result_output`,
//! `rows.KEY` for one value.

mod layout;
mod metadata;
mod reader;
mod writer;

use std::{
    io,
    path::{Path, PathBuf},
};

use crate::{Key, Known, Origin, Trace};

pub(crate) use reader::{is_trace, read_trace};
pub use writer::TraceWriter;

/// The version of the format, as the metadata says it.
pub(crate) const VERSION: &str = "1";

/// Why a trace could not be written. Every message opens with the file or the value.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The file cannot be written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Values do not fill rows.
    #[error("{key}: {values} values are no rows of {width}")]
    Ragged {
        /// The value.
        key: Key,
        /// Elements given.
        values: usize,
        /// Elements per row given.
        width: usize,
    },
    /// Rows of one value differ in width.
    #[error("{key}: rows of {found}, expected {expected} as before")]
    Width {
        /// The value.
        key: Key,
        /// Elements per row before.
        expected: usize,
        /// Elements per row now.
        found: usize,
    },
    /// A row was pushed twice.
    #[error("{key}: row {row} is there twice")]
    Twice {
        /// The value.
        key: Key,
        /// The row.
        row: usize,
    },
    /// The file holds complete exact values, and this is not one.
    #[error("{key}: not every element is known exactly, a trace file holds nothing less")]
    Incomplete {
        /// The value.
        key: Key,
    },
}

impl WriteError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> WriteError {
        let path = path.to_owned();
        move |source| WriteError::Io { path, source }
    }
}

/// Writes a whole trace.
///
/// # Errors
/// If the file cannot be written, or a value is not completely and exactly known.
pub fn write(trace: &Trace, path: &Path) -> Result<(), WriteError> {
    let mut values = Vec::with_capacity(trace.values.len());
    for (key, evidence) in &trace.values {
        let incomplete = || WriteError::Incomplete { key: key.clone() };
        let Known::All(elements) = &evidence.known else { return Err(incomplete()) };
        if evidence.precision != 0.0 || evidence.width == 0 {
            return Err(incomplete());
        }
        let rows = evidence.rows.clone().ok_or_else(incomplete)?;
        if rows.len().checked_mul(evidence.width) != Some(elements.len()) {
            return Err(WriteError::Ragged { key: key.clone(), values: elements.len(), width: evidence.width });
        }
        values.push((layout::Laid { key: key.clone(), rows, width: evidence.width, heads: None }, elements.as_slice()));
    }
    let tokens = token_count(&trace.origin, values.iter().map(|(laid, _)| laid));
    for (laid, _) in &mut values {
        // All positions of a pass: where they do not divide the width, the scores stay [rows, heads * positions].
        if layout::is_scores(&laid.key.name) && tokens > 0 && laid.width.is_multiple_of(tokens) {
            laid.heads = Some(laid.width / tokens);
        }
    }
    let laid: Vec<_> = values.iter().map(|(laid, _)| laid.clone()).collect();
    layout::save(path, &laid, &trace.origin, |index, out| {
        let (laid, elements) = &values[index];
        layout::write_rows(laid, elements, out)
    })
}

/// Tokens that a trace speaks of: those it names, or as many as its rows reach.
fn token_count<'a>(origin: &Origin, values: impl Iterator<Item = &'a layout::Laid>) -> usize {
    let reached = values.filter_map(|laid| laid.rows.iter().max()).max().map_or(0, |row| row + 1);
    origin.tokens.as_ref().map_or(reached, |tokens| tokens.len().max(reached))
}
