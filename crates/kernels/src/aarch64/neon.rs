//! The table for NEON as every 64-bit ARM processor has it: products of bytes are added as 16 bits, then as 32.

use std::arch::aarch64::*;

use super::fold::fold;
use super::integer::{Dot, Integer, Tile};
use super::panel::{Half, QUADS};
use super::registers::load_i8;
use crate::Kernels;

/// Proof that this processor has NEON: the only way to the table, and so to its kernels.
#[derive(Clone, Copy)]
pub(crate) struct Neon(());

impl Neon {
    /// Asks the processor and the operating system.
    pub(crate) fn detect() -> Option<Neon> {
        std::arch::is_aarch64_feature_detected!("neon").then_some(Neon(()))
    }

    /// The table.
    pub(crate) fn kernels(self) -> &'static Kernels {
        static TABLE: Kernels = super::table("neon", super::mat::<Neon>);
        &TABLE
    }
}

impl Dot for Neon {
    /// Two products fit 16 bits for weights down to -128, since no activation is: 2 * 128 * 127 < 2^15.
    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn dot(sums: int32x4_t, w: int8x16_t, x: int8x16_t) -> int32x4_t {
        let products = vmull_s8(vget_low_s8(w), vget_low_s8(x));
        vpadalq_s16(sums, vmlal_high_s8(products, w, x))
    }
}

impl Integer for Neon {
    type Dot = Neon;

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn pack(rows: [int8x16_t; 4]) -> [int8x16_t; 4] {
        rows
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn sums<const H: usize, const T: usize>(
        w: &[Half; H],
        x: [&[i8; 32]; T],
        first: usize,
    ) -> Tile<int32x4_t, T> {
        let zero = vdupq_n_s32(0);
        let mut sums = [[zero; QUADS]; T];
        for q in 0..QUADS {
            for t in 0..T {
                let mut rows = [zero; 4];
                for half in 0..H {
                    let x = load_i8(x[t], (first + half) * 16);
                    for r in 0..4 {
                        let w = load_i8(&w[half][q][r], 0);
                        // SAFETY: the caller has what `dot` asks for.
                        rows[r] = unsafe { Self::dot(rows[r], w, x) };
                    }
                }
                sums[t][q] = fold(rows);
            }
        }
        sums
    }
}
