//! The products with 8-bit activations: checks, then one input by `rows`, more by `panels`.

use super::format::Quant;
use super::multiply::Multiply;
use super::panels::panels;
use super::rows::rows;
use crate::shape::q8_rows;
use crate::{Activations, OutTile};

/// `out[t][o] = w[o] . x[t]`.
pub fn mat<M: Multiply, Q: Quant<N>, const N: usize>(mut out: OutTile<'_>, w: &[u8], count: usize, x: Activations<'_>) {
    let (x, inputs, row_bytes) = q8_rows(&out, Q::FORMAT, w, count, x);
    if count == 0 || inputs == 0 {
        return;
    }
    if inputs == 1 {
        rows::<M, Q, N>(&mut out.values[..count], w, row_bytes, x.row(0));
    } else {
        panels::<M, Q, N>(&mut out, w, count, x);
    }
}
