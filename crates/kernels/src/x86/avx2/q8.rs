//! The products with 8-bit activations: checks, then one input by `rows`, several by `panels`.

use super::format::Quant;
use super::panels::panels;
use super::rows::rows;
use crate::shape::q8_rows;
use crate::{Activations, OutTile};

/// `out[t][o] = w[o] . x[t]`.
pub fn mat<Q: Quant>(mut out: OutTile<'_>, w: &[u8], rows_count: usize, x: Activations<'_>) {
    let (x, inputs, row_bytes) = q8_rows(&out, Q::FORMAT, w, rows_count, x);
    match inputs {
        // SAFETY: only the table leads here, and only an `Avx2` to the table: the processor has these features.
        1 => unsafe { rows::<Q>(&mut out.values[..rows_count], w, row_bytes, x.row(0)) },
        // SAFETY: as above.
        _ => unsafe { panels::<Q>(&mut out, w, row_bytes, rows_count, x) },
    }
}
