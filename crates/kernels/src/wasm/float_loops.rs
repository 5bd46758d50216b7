//! The loops of `lanes`: the scalar table's, which the compiler turns into registers of 128 bits since the whole module has
//! them, with halves widened and levels tried by instructions. Not a second definition of anything.

use std::arch::wasm32::*;

use super::registers::{load, store, widen_halves};
use crate::activations::Q8_BLOCK;
use crate::array::Each;
use crate::lanes::{self, ROUNDER, WIDTH};
use crate::scalar;
use crate::{F32Kernels, Q8RowMut};

pub const LOOPS: F32Kernels = F32Kernels { dot_f16, axpy_f16, quantize_q8, ..scalar::LOOPS };

fn dot_f16(x: &[f32], y: &[u16]) -> f32 {
    lanes::dot_f16(x, y, widen)
}

fn axpy_f16(out: &mut [f32], a: f32, x: &[u16]) {
    lanes::axpy_f16(out, a, x, widen);
}

fn quantize_q8(out: Q8RowMut<'_>, x: &[f32]) {
    lanes::quantize_q8_by(out, x, squared_errors);
}

/// As `lanes` has it, of which the compiler makes single numbers.
#[inline(always)]
fn squared_errors(x: &[f32; Q8_BLOCK], factors: [f32; 8]) -> [f32; 8] {
    let factors = [load(&factors, 0), load(&factors, 4)];
    let rounder = f32x4_splat(ROUNDER);
    let mut squares = [[f32x4_splat(0.0); 2]; 2];
    for pair in x.as_chunks::<2>().0 {
        for (squares, &x) in squares.iter_mut().zip(pair) {
            for (square, factor) in squares.iter_mut().zip(factors) {
                let scaled = f32x4_mul(f32x4_splat(x), factor);
                let off = f32x4_sub(scaled, f32x4_sub(f32x4_add(scaled, rounder), rounder));
                *square = f32x4_add(*square, f32x4_mul(off, off));
            }
        }
    }
    let [even, odd] = squares;
    let mut errors = [0.0; 8];
    store(&mut errors, 0, f32x4_add(even[0], odd[0]));
    store(&mut errors, 4, f32x4_add(even[1], odd[1]));
    errors
}

/// 16 halves, exactly.
#[inline(always)]
fn widen(halves: &[u16; WIDTH]) -> [f32; WIDTH] {
    let mut wide = [0.0; WIDTH];
    for (i, four) in halves.as_chunks::<4>().0.iter().enumerate() {
        let [a, b, c, d] = four.each(|half| i32::from(half.cast_signed()));
        store(&mut wide, i * 4, widen_halves(i32x4(a, b, c, d)));
    }
    wide
}
