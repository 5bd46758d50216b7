//! The products with 8-bit activations: checks, then few inputs by `rows`, more by `panels`.

use super::format::Quant;
use super::panels::panels;
use super::rows::rows;
use crate::shape::q8_rows;
use crate::{Activations, OutTile};

/// `out[t][o] = w[o] . x[t]`.
pub fn mat<Q: Quant>(mut out: OutTile<'_>, w: &[u8], count: usize, x: Activations<'_>) {
    let (x, inputs, row_bytes) = q8_rows(&out, Q::FORMAT, w, count, x);
    if count == 0 {
        return;
    }
    if inputs > Q::FEW_INPUTS {
        // SAFETY: only the table leads here, and only an `Avx2` to the table: the processor has these features.
        return unsafe { panels::<Q>(&mut out, w, row_bytes, count, x) };
    }
    for t in 0..inputs {
        let out = &mut out.values[t * out.stride..][..count];
        // SAFETY: as above.
        unsafe { rows::<Q>(out, w, row_bytes, x.row(t)) };
    }
}
