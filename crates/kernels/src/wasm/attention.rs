//! Attention on four registers of 4. Products and sums are rounded one by one, as in the scalar table: there is no instruction
//! that is sure to fuse them.

#![allow(unused_unsafe, reason = "`rows` calls functions with features, which in WebAssembly is safe")]

use std::arch::wasm32::*;

use candor_quant::Format;

use super::float_loops::LOOPS;
use super::panel::widen;
use super::registers::widen_halves;
use crate::array::{self, Each};
use crate::attention::tiles::{Product, Source, Wide, Widened, products, rows, strip, widened};
use crate::scalar::attention::{put_key_f16, put_value_f16};
use crate::{AttentionKernels, Kernels, OutTile, Queries, Weights};

#[derive(Clone, Copy)]
struct Sixteen([v128; 4]);

rows!("simd128", Sixteen, LOOPS.to_f16);

/// Widens 16 signed bytes.
#[inline(always)]
fn floats(bytes: v128) -> Sixteen {
    Sixteen(widen(bytes).each(|four| f32x4_convert_i32x4(four)))
}

// SAFETY: each method reads and writes 16 numbers, or as many as its name says.
unsafe impl Wide for Sixteen {
    type Steps = v128;
    const STEPS: usize = 1;
    const TOGETHER: usize = 32;
    const LEAST_STEPS: usize = 128;

    #[inline(always)]
    unsafe fn zero() -> Sixteen {
        Sixteen([f32x4_splat(0.0); 4])
    }

    #[inline(always)]
    unsafe fn step(at: *const f32) -> v128 {
        // SAFETY: the caller's promise: a float is readable.
        unsafe { v128_load32_splat(at.cast()) }
    }

    #[inline(always)]
    unsafe fn steps(at: *const f32) -> v128 {
        // SAFETY: as above.
        unsafe { Self::step(at) }
    }

    #[inline(always)]
    unsafe fn plus<const STEP: i32>(self, a: v128, b: Sixteen) -> Sixteen {
        Sixteen(array::of(|i| f32x4_add(self.0[i], f32x4_mul(b.0[i], a))))
    }

    #[inline(always)]
    unsafe fn times(self, b: Sixteen) -> Sixteen {
        Sixteen(array::of(|i| f32x4_mul(self.0[i], b.0[i])))
    }

    #[inline(always)]
    unsafe fn load(at: *const u8) -> Sixteen {
        // SAFETY: the caller's promise: 64 bytes are readable.
        unsafe { Sixteen(array::of(|i| v128_load(at.add(i * 16).cast()))) }
    }

    #[inline(always)]
    unsafe fn store(self, at: *mut u8) {
        for (i, part) in self.0.into_iter().enumerate() {
            // SAFETY: the caller's promise: 64 bytes are writable.
            unsafe { v128_store(at.add(i * 16).cast(), part) };
        }
    }

    #[inline(always)]
    unsafe fn load_f16(at: *const u8) -> Sixteen {
        // SAFETY: the caller's promise: 32 bytes are readable.
        unsafe { Sixteen(array::of(|i| widen_halves(i32x4_load_extend_i16x4(at.add(i * 8).cast())))) }
    }

    #[inline(always)]
    unsafe fn load_i8(at: *const u8) -> Sixteen {
        // SAFETY: the caller's promise: 16 bytes are readable.
        floats(unsafe { v128_load(at.cast()) })
    }

    #[inline(always)]
    unsafe fn load_u4(at: *const u8, bit: usize) -> Sixteen {
        // SAFETY: as above.
        let bytes = unsafe { v128_load(at.cast()) };
        floats(i8x16_sub(super::bits::bits(bytes, bit, 15), i8x16_splat(8)))
    }

    #[inline(always)]
    unsafe fn splat_f16(at: *const u8) -> Sixteen {
        // SAFETY: the caller's promise: 2 bytes are readable.
        let half = unsafe { at.cast::<i16>().read_unaligned() };
        Sixteen([widen_halves(i32x4_splat(half.into())); 4])
    }

    /// WebAssembly has no prefetches.
    #[inline(always)]
    unsafe fn prefetch(_: *const u8) {}

    /// Eight sums in registers: with a group, 13 of 16. For more queries than a tile's, numbers are widened once.
    #[inline(always)]
    unsafe fn run<S: Source<Sixteen>>(product: Product<S>, queries: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            match queries {
                1 if S::SCALED => strip::<Sixteen, S, 1, 1, 1>(product),
                1 => strip::<Sixteen, S, 1, 2, 1>(product),
                2 => strip::<Sixteen, S, 2, 1, 1>(product),
                _ => widened::<Sixteen, S>(product, |product| one_group(product, queries)),
            }
        }
    }
}

/// Two queries at a time.
///
/// # Safety
/// As [`Wide::run`].
#[inline(always)]
unsafe fn one_group(product: Product<Widened>, queries: usize) {
    let mut q = 0;
    // SAFETY: the caller's promise.
    unsafe {
        while q + 2 <= queries {
            strip::<Sixteen, Widened, 2, 1, 1>(product.from(q, 0));
            q += 2;
        }
        if q < queries {
            strip::<Sixteen, Widened, 1, 1, 1>(product.from(q, 0));
        }
    }
}
