//! The products with 8-bit activations: checks, then few inputs by `rows`, more by `panels`.

use super::format::Quant;
use super::multiply::Multiply;
use super::panels::panels;
use super::rows::rows;
use crate::shape::q8_rows;
use crate::{Activations, OutTile};

/// `out[t][o] = w[o] . x[t]`.
pub fn mat<M: Multiply, Q: Quant<M>>(mut out: OutTile<'_>, w: &[u8], count: usize, x: Activations<'_>) {
    let (x, inputs, row_bytes) = q8_rows(&out, Q::FORMAT, w, count, x);
    if count == 0 {
        return;
    }
    if inputs > Q::FEW_INPUTS {
        // SAFETY: only tables lead here, whose tokens say that the processor has these features and the products of `M`.
        return unsafe { panels::<M, Q>(&mut out, w, row_bytes, count, x) };
    }
    for t in 0..inputs {
        let out = &mut out.values[t * out.stride..][..count];
        // SAFETY: as above.
        unsafe { rows::<M, Q>(out, w, row_bytes, x.row(t)) };
    }
}
