//! The table for the 8-bit matrix products of ARMv8.6 (Neoverse V1 and N2, Cortex-A510 and A710, Apple M2, and later):
//! one instruction multiplies eight columns of two inputs with those of two rows. A single input has the dot products.

use std::arch::aarch64::*;

use super::Dotprod;
use super::instructions::smmla;
use super::integer::{Integer, Tile};
use super::panel::{Half, QUADS};
use super::registers::load_i8;
use crate::Kernels;
use crate::array::{self, Each};
use crate::order::SEGMENT_BLOCKS;

/// Proof that this processor has NEON, its dot products and its matrix products.
#[derive(Clone, Copy)]
pub(crate) struct I8mm(());

impl I8mm {
    /// Asks the processor and the operating system.
    pub(crate) fn detect() -> Option<I8mm> {
        Dotprod::detect()?;
        std::arch::is_aarch64_feature_detected!("i8mm").then_some(I8mm(()))
    }

    /// The table.
    pub(crate) fn kernels(self) -> &'static Kernels {
        static TABLE: Kernels = super::table("i8mm", super::mat::<I8mm>);
        &TABLE
    }
}

/// The lower halves of both, then the upper halves of both.
#[inline]
#[target_feature(enable = "neon")]
fn zip(a: int8x16_t, b: int8x16_t) -> [int8x16_t; 2] {
    let (a, b) = (vreinterpretq_s64_s8(a), vreinterpretq_s64_s8(b));
    [vzip1q_s64(a, b), vzip2q_s64(a, b)].each(|both| vreinterpretq_s8_s64(both))
}

/// 16 columns of all rows times those of every input from `at` on.
///
/// # Safety
/// The processor has the matrix products.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn add_half<const T: usize>(sums: &mut Tile<int32x4_t, T>, w: &Half, x: [&[i8; 32]; T], at: usize) {
    for q in 0..QUADS {
        let w: [int8x16_t; 4] = array::of(|k| load_i8(&w[q][k], 0));
        for t in 0..T {
            // The compiler sees that both places of a pair, and every four rows, zip the same.
            let x = zip(load_i8(x[t & !1], at), load_i8(x[t | 1], at));
            for k in 0..2 {
                // SAFETY: the caller has the matrix products.
                sums[t][q] = unsafe { smmla(sums[t][q], x[k], w[t % 2 * 2 + k]) };
            }
        }
    }
}

/// A tile's places go in pairs, `t` and `t + 1` for even `t`: in the lower two lanes input `t`, in the upper two input
/// `t + 1`; at place `t` rows 0 and 1 of four, at place `t + 1` rows 2 and 3.
impl Integer for I8mm {
    type Dot = Dotprod;

    /// Rows 0 and 1: eight columns of both, the other eight; then rows 2 and 3.
    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn pack([a, b, c, d]: [int8x16_t; 4]) -> [int8x16_t; 4] {
        let ([ab0, ab1], [cd0, cd1]) = (zip(a, b), zip(c, d));
        [ab0, ab1, cd0, cd1]
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn sums<const H: usize, const T: usize>(
        w: &[Half; H],
        x: [&[i8; 32]; T],
        first: usize,
    ) -> Tile<int32x4_t, T> {
        let mut sums = [[vdupq_n_s32(0); QUADS]; T];
        for half in 0..H {
            // SAFETY: as this function's.
            unsafe { add_half(&mut sums, &w[half], x, (first + half) * 16) };
        }
        sums
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn halves<const T: usize>([first, second]: &[Half; 2], x: [&[i8; 32]; T]) -> [Tile<int32x4_t, T>; 2] {
        let mut sums = [[[vdupq_n_s32(0); QUADS]; T]; 2];
        // SAFETY: as this function's.
        unsafe {
            add_half(&mut sums[0], first, x, 0);
            add_half(&mut sums[1], second, x, 16);
        }
        sums
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn of_rows(rows: float32x4_t, t: usize) -> float32x4_t {
        let two = if t.is_multiple_of(2) { vget_low_f32(rows) } else { vget_high_f32(rows) };
        vcombine_f32(two, two)
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn of_inputs<const T: usize>(inputs: &[[f32; SEGMENT_BLOCKS]; T], b: usize, t: usize) -> float32x4_t {
        vcombine_f32(vdup_n_f32(inputs[t & !1][b]), vdup_n_f32(inputs[t | 1][b]))
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn in_rows<const T: usize>(tile: Tile<float32x4_t, T>) -> Tile<float32x4_t, T> {
        let mut rows = tile;
        for t in (0..T).step_by(2) {
            for q in 0..QUADS {
                let (a, b) = (tile[t][q], tile[t + 1][q]);
                rows[t][q] = vcombine_f32(vget_low_f32(a), vget_low_f32(b));
                rows[t + 1][q] = vcombine_f32(vget_high_f32(a), vget_high_f32(b));
            }
        }
        rows
    }
}
