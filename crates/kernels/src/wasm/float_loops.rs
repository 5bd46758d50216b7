//! The loops of `lanes`: the scalar table's, which the compiler turns into registers of 128 bits since the whole module has
//! them, with halves widened by instructions. Not a second definition of anything.

use std::arch::wasm32::*;

use super::registers::{store, widen_halves};
use crate::F32Kernels;
use crate::lanes::{self, WIDTH};
use crate::scalar;

pub const LOOPS: F32Kernels = F32Kernels { dot_f16, axpy_f16, ..scalar::LOOPS };

fn dot_f16(x: &[f32], y: &[u16]) -> f32 {
    lanes::dot_f16(x, y, widen)
}

fn axpy_f16(out: &mut [f32], a: f32, x: &[u16]) {
    lanes::axpy_f16(out, a, x, widen);
}

/// 16 halves, exactly.
#[inline(always)]
fn widen(halves: &[u16; WIDTH]) -> [f32; WIDTH] {
    let mut wide = [0.0; WIDTH];
    for (i, four) in halves.as_chunks::<4>().0.iter().enumerate() {
        let [a, b, c, d] = four.map(|half| i32::from(half.cast_signed()));
        store(&mut wide, i * 4, widen_halves(i32x4(a, b, c, d)));
    }
    wide
}
