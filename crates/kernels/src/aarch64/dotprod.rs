//! The table for the byte dot products of ARMv8.2 (Cortex-A55 and A75, Neoverse N1, Apple A13, and later).

use std::arch::aarch64::*;

use super::Neon;
use super::fold::transpose;
use super::instructions::{sdot, sdot_lane};
use super::integer::{Dot, Integer, Tile};
use super::panel::{Half, QUADS};
use super::registers::load_i8;
use crate::Kernels;
use crate::array::Each;

/// Proof that this processor has NEON and its dot products.
#[derive(Clone, Copy)]
pub(crate) struct Dotprod(());

impl Dotprod {
    /// Asks the processor and the operating system.
    pub(crate) fn detect() -> Option<Dotprod> {
        Neon::detect()?;
        std::arch::is_aarch64_feature_detected!("dotprod").then_some(Dotprod(()))
    }

    /// The table.
    pub(crate) fn kernels(self) -> &'static Kernels {
        static TABLE: Kernels = super::table("dotprod", super::mat::<Dotprod>);
        &TABLE
    }
}

impl Dot for Dotprod {
    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn dot(sums: int32x4_t, w: int8x16_t, x: int8x16_t) -> int32x4_t {
        // SAFETY: the caller has the dot products.
        unsafe { sdot(sums, w, x) }
    }
}

impl Integer for Dotprod {
    type Dot = Dotprod;

    /// Register `k` = columns `4k..4k + 4` of four rows: they meet four activations in every lane.
    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn pack(rows: [int8x16_t; 4]) -> [int8x16_t; 4] {
        transpose(rows.each(|row| vreinterpretq_f32_s8(row))).each(|columns| vreinterpretq_s8_f32(columns))
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn sums<const H: usize, const T: usize>(
        w: &[Half; H],
        x: [&[i8; 32]; T],
        first: usize,
    ) -> Tile<int32x4_t, T> {
        let mut sums = [[vdupq_n_s32(if H == 2 { Self::START } else { 0 }); QUADS]; T];
        for half in 0..H {
            let x = x.each(|x| load_i8(x, (first + half) * 16));
            // SAFETY: the caller has what `step` asks for.
            unsafe {
                step::<0, T>(&mut sums, &w[half], x);
                step::<1, T>(&mut sums, &w[half], x);
                step::<2, T>(&mut sums, &w[half], x);
                step::<3, T>(&mut sums, &w[half], x);
            }
        }
        sums
    }

    /// Neoverse N1 subtracts floats four times as fast as it converts integers.
    const START: i32 = START.to_bits() as i32;

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn float(sums: int32x4_t) -> float32x4_t {
        vsubq_f32(vreinterpretq_f32_s32(sums), vdupq_n_f32(START))
    }
}

/// 1.5 * 2^23. A whole number of less than 23 bits added to its bits gives the float that is greater by as much; the sums of a block,
/// at most 32 * 128 * 127, have 20.
const START: f32 = 12_582_912.0;

/// Four columns of all rows times four activations of every input.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn step<const K: usize, const T: usize>(sums: &mut Tile<int32x4_t, T>, w: &Half, x: [int8x16_t; T]) {
    for q in 0..QUADS {
        let w = load_i8(&w[q][K], 0);
        for t in 0..T {
            // SAFETY: the caller has the dot products.
            sums[t][q] = unsafe { sdot_lane::<K>(sums[t][q], w, x[t]) };
        }
    }
}
