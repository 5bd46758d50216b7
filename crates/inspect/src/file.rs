//! Candor's own trace file, version 1: a safetensors file of F32 tensors named by [`Key`](crate::Key), with the origin in
//! its metadata. How values reach it step by step is [`TraceWriter`]; other engines' dumps are `crate::import`.
//!
//! Shapes are `[rows, width]`; attention scores are `[heads, rows, positions]`. Rows are the tokens from the first on,
//! unless metadata lists others: `rows` for all values, `output_rows` for `result_norm` and `result_output`,
//! `rows.KEY` for one value.

mod error;
mod laid;
mod layout;
mod metadata;
mod reader;
mod writer;

use std::path::Path;

use crate::{Known, Trace};

pub use error::WriteError;
pub(crate) use reader::{is_trace, read_trace};
pub use writer::TraceWriter;

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
        values.push((laid::Laid { key: key.clone(), rows, width: evidence.width, heads: None }, elements.as_slice()));
    }
    let tokens = laid::token_count(&trace.origin, values.iter().map(|(laid, _)| laid));
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
