//! Attention on four registers of 4; products are fused with their sums, and take their factors from the lanes of a register
//! that has four steps of a query.

use std::arch::aarch64::*;

use candor_quant::Format;

use super::float_loops::LOOPS;
use super::instructions;
use crate::array;
use crate::attention::tiles::{AHEAD, Product, Source, Wide, Widened, products, rows, strip, widened};
use crate::scalar::attention::{put_key_f16, put_value_f16};
use crate::{AttentionKernels, Kernels, OutTile, Queries, Weights};

#[derive(Clone, Copy)]
struct Sixteen([float32x4_t; 4]);

rows!("neon", Sixteen, LOOPS.to_f16);

/// Widens 16 signed bytes.
///
/// # Safety
/// The processor has NEON.
#[inline(always)]
unsafe fn floats(bytes: int8x16_t) -> Sixteen {
    // SAFETY: the caller has the instruction set.
    unsafe {
        let (low, high) = (vmovl_s8(vget_low_s8(bytes)), vmovl_high_s8(bytes));
        Sixteen([
            vcvtq_f32_s32(vmovl_s16(vget_low_s16(low))),
            vcvtq_f32_s32(vmovl_high_s16(low)),
            vcvtq_f32_s32(vmovl_s16(vget_low_s16(high))),
            vcvtq_f32_s32(vmovl_high_s16(high)),
        ])
    }
}

// SAFETY: each method reads and writes 16 numbers, or as many as its name says.
unsafe impl Wide for Sixteen {
    type Steps = float32x4_t;
    const STEPS: usize = 4;
    const TOGETHER: usize = 32;
    const LEAST_STEPS: usize = 128;

    #[inline(always)]
    unsafe fn zero() -> Sixteen {
        // SAFETY: the caller has the instruction set.
        unsafe { Sixteen([vdupq_n_f32(0.0); 4]) }
    }

    #[inline(always)]
    unsafe fn step(at: *const f32) -> float32x4_t {
        // SAFETY: as above, and a float is readable.
        unsafe { vdupq_n_f32(at.read_unaligned()) }
    }

    #[inline(always)]
    unsafe fn steps(at: *const f32) -> float32x4_t {
        // SAFETY: as above, and 4 floats are readable.
        unsafe { vld1q_f32(at) }
    }

    #[inline(always)]
    unsafe fn plus<const STEP: i32>(self, a: float32x4_t, b: Sixteen) -> Sixteen {
        // SAFETY: as above.
        unsafe { Sixteen(array::of(|i| vfmaq_laneq_f32::<STEP>(self.0[i], b.0[i], a))) }
    }

    #[inline(always)]
    unsafe fn times(self, b: Sixteen) -> Sixteen {
        // SAFETY: as above.
        unsafe { Sixteen(array::of(|i| vmulq_f32(self.0[i], b.0[i]))) }
    }

    #[inline(always)]
    unsafe fn load(at: *const u8) -> Sixteen {
        // SAFETY: as above, and 64 bytes are readable.
        unsafe { Sixteen(array::of(|i| vreinterpretq_f32_u8(vld1q_u8(at.add(i * 16))))) }
    }

    #[inline(always)]
    unsafe fn store(self, at: *mut u8) {
        for (i, part) in self.0.into_iter().enumerate() {
            // SAFETY: as above, and 64 bytes are writable.
            unsafe { vst1q_u8(at.add(i * 16), vreinterpretq_u8_f32(part)) };
        }
    }

    #[inline(always)]
    unsafe fn load_f16(at: *const u8) -> Sixteen {
        // SAFETY: as above, and 32 bytes are readable.
        unsafe {
            let (low, high) = (vreinterpretq_f16_u8(vld1q_u8(at)), vreinterpretq_f16_u8(vld1q_u8(at.add(16))));
            Sixteen([
                vcvt_f32_f16(vget_low_f16(low)),
                vcvt_high_f32_f16(low),
                vcvt_f32_f16(vget_low_f16(high)),
                vcvt_high_f32_f16(high),
            ])
        }
    }

    #[inline(always)]
    unsafe fn load_i8(at: *const u8) -> Sixteen {
        // SAFETY: as above, and 16 bytes are readable.
        unsafe { floats(vreinterpretq_s8_u8(vld1q_u8(at))) }
    }

    #[inline(always)]
    unsafe fn load_u4(at: *const u8, bit: usize) -> Sixteen {
        // SAFETY: as above, and 16 bytes are readable.
        unsafe {
            let quants = vandq_u8(vshlq_u8(vld1q_u8(at), vdupq_n_s8(-(bit as i8))), vdupq_n_u8(15));
            floats(vsubq_s8(vreinterpretq_s8_u8(quants), vdupq_n_s8(8)))
        }
    }

    #[inline(always)]
    unsafe fn splat_f16(at: *const u8) -> Sixteen {
        // SAFETY: as above, and 2 bytes are readable.
        unsafe {
            let half = vdup_n_u16(at.cast::<u16>().read_unaligned());
            Sixteen([vcvt_f32_f16(vreinterpret_f16_u16(half)); 4])
        }
    }

    #[inline(always)]
    unsafe fn prefetch(at: *const u8) {
        instructions::prefetch(at.wrapping_add(AHEAD));
    }

    /// Sixteen sums in registers, half as many where scales lie there too. For more queries than a tile's, numbers are
    /// widened once.
    #[inline(always)]
    unsafe fn run<S: Source<Sixteen>>(product: Product<S>, queries: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            match queries {
                1 if S::SCALED => strip::<Sixteen, S, 1, 2, 1>(product),
                1 => strip::<Sixteen, S, 1, 4, 2>(product),
                2 if S::SCALED => strip::<Sixteen, S, 2, 1, 1>(product),
                2 => strip::<Sixteen, S, 2, 2, 1>(product),
                4 => strip::<Sixteen, S, 4, 1, 1>(product),
                _ => widened::<Sixteen, S>(product, |product| one_group(product, queries)),
            }
        }
    }
}

/// Sixteen sums for four queries; for six, 24 sums, the compiler keeps some of them in memory.
///
/// # Safety
/// As [`Wide::run`].
#[inline(always)]
unsafe fn one_group(product: Product<Widened>, queries: usize) {
    let mut q = 0;
    // SAFETY: the caller's promise.
    unsafe {
        while q + 4 <= queries {
            strip::<Sixteen, Widened, 4, 1, 1>(product.from(q, 0));
            q += 4;
        }
        while q + 2 <= queries {
            strip::<Sixteen, Widened, 2, 1, 1>(product.from(q, 0));
            q += 2;
        }
        if q < queries {
            strip::<Sixteen, Widened, 1, 1, 1>(product.from(q, 0));
        }
    }
}
