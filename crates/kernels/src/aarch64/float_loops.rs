//! The loops of `lanes` for NEON: the scalar table's, which the compiler turns into NEON since every processor has it,
//! with halves converted and levels tried by instructions. Not a second definition of anything.

use std::arch::aarch64::*;

use candor_quant::half;

use super::registers::{load_f32, narrow_to_halves, store_f32, widen_halves};
use crate::activations::Q8_BLOCK;
use crate::lanes::{self, ROUNDER, WIDTH};
use crate::{F32Kernels, Q8RowMut, scalar};

pub const LOOPS: F32Kernels = F32Kernels { dot_f16, axpy_f16, to_f16, quantize_q8, ..scalar::LOOPS };

fn dot_f16(x: &[f32], y: &[u16]) -> f32 {
    #[target_feature(enable = "neon")]
    fn compiled(x: &[f32], y: &[u16]) -> f32 {
        lanes::dot_f16(x, y, |halves| widen(halves))
    }
    // SAFETY: only the table leads here, and only a `Neon` to the table: the processor has it.
    unsafe { compiled(x, y) }
}

fn axpy_f16(out: &mut [f32], a: f32, x: &[u16]) {
    #[target_feature(enable = "neon")]
    fn compiled(out: &mut [f32], a: f32, x: &[u16]) {
        lanes::axpy_f16(out, a, x, |halves| widen(halves));
    }
    // SAFETY: as in `dot_f16`.
    unsafe { compiled(out, a, x) }
}

fn to_f16(out: &mut [u16], x: &[f32]) {
    // SAFETY: as in `dot_f16`.
    unsafe { narrow(out, x) }
}

fn quantize_q8(out: Q8RowMut<'_>, x: &[f32]) {
    #[target_feature(enable = "neon")]
    fn compiled(out: Q8RowMut<'_>, x: &[f32]) {
        lanes::quantize_q8_by(out, x, |x, factors| squared_errors(x, factors));
    }
    // SAFETY: as in `dot_f16`.
    unsafe { compiled(out, x) }
}

/// As `lanes` has it, of which the compiler makes single numbers.
#[inline]
#[target_feature(enable = "neon")]
fn squared_errors(x: &[f32; Q8_BLOCK], factors: [f32; 8]) -> [f32; 8] {
    let factors = [load_f32(&factors, 0), load_f32(&factors, 4)];
    let rounder = vdupq_n_f32(ROUNDER);
    let mut squares = [[vdupq_n_f32(0.0); 2]; 2];
    for pair in x.as_chunks::<2>().0 {
        for (squares, &x) in squares.iter_mut().zip(pair) {
            for (square, factor) in squares.iter_mut().zip(factors) {
                let scaled = vmulq_f32(vdupq_n_f32(x), factor);
                let off = vsubq_f32(scaled, vsubq_f32(vaddq_f32(scaled, rounder), rounder));
                *square = vaddq_f32(*square, vmulq_f32(off, off));
            }
        }
    }
    let [even, odd] = squares;
    let mut errors = [0.0; 8];
    store_f32(&mut errors, 0, vaddq_f32(even[0], odd[0]));
    store_f32(&mut errors, 4, vaddq_f32(even[1], odd[1]));
    errors
}

/// 16 halves, exactly.
#[inline]
#[target_feature(enable = "neon")]
fn widen(halves: &[u16; WIDTH]) -> [f32; WIDTH] {
    let mut wide = [0.0; WIDTH];
    for (i, &halves) in halves.as_chunks::<4>().0.iter().enumerate() {
        store_f32(&mut wide, i * 4, widen_halves(halves));
    }
    wide
}

/// Ties to even, as `candor_quant::half` does.
#[target_feature(enable = "neon")]
fn narrow(out: &mut [u16], x: &[f32]) {
    assert_eq!(out.len(), x.len(), "to_f16");
    let ((out, out_rest), (x, x_rest)) = (out.as_chunks_mut::<4>(), x.as_chunks::<4>());
    for (out, x) in out.iter_mut().zip(x) {
        *out = narrow_to_halves(load_f32(x, 0));
    }
    for (out, &x) in out_rest.iter_mut().zip(x_rest) {
        *out = half::f32_to_f16(x);
    }
}
