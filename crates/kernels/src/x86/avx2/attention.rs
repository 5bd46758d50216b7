//! Attention on pairs of registers of 8; products are fused with their sums.

use std::arch::x86_64::*;

use candor_quant::Format;

use super::float_loops::LOOPS;
use crate::attention::tiles::{AHEAD, Product, Source, Wide, products, rows, strip};
use crate::scalar::attention::{put_key_f16, put_value_f16};
use crate::{AttentionKernels, Kernels, OutTile, Queries, Weights};

#[derive(Clone, Copy)]
struct Pair(__m256, __m256);

rows!("avx2,fma,f16c", Pair, LOOPS.to_f16);

// SAFETY: each method reads and writes 16 numbers, or the one that its name says.
unsafe impl Wide for Pair {
    type Steps = Pair;
    const STEPS: usize = 1;
    const TOGETHER: usize = 8;
    const LEAST_STEPS: usize = 32;

    #[inline(always)]
    unsafe fn zero() -> Pair {
        // SAFETY: the caller has the instruction set.
        unsafe { Pair(_mm256_setzero_ps(), _mm256_setzero_ps()) }
    }

    #[inline(always)]
    unsafe fn step(at: *const f32) -> Pair {
        // SAFETY: as above, and a float is readable.
        let x = unsafe { _mm256_set1_ps(at.read_unaligned()) };
        Pair(x, x)
    }

    #[inline(always)]
    unsafe fn steps(at: *const f32) -> Pair {
        // SAFETY: as above.
        unsafe { Self::step(at) }
    }

    #[inline(always)]
    unsafe fn plus<const STEP: i32>(self, a: Pair, b: Pair) -> Pair {
        // SAFETY: as above.
        unsafe { Pair(_mm256_fmadd_ps(a.0, b.0, self.0), _mm256_fmadd_ps(a.1, b.1, self.1)) }
    }

    #[inline(always)]
    unsafe fn times(self, b: Pair) -> Pair {
        // SAFETY: as above.
        unsafe { Pair(_mm256_mul_ps(self.0, b.0), _mm256_mul_ps(self.1, b.1)) }
    }

    #[inline(always)]
    unsafe fn load(at: *const u8) -> Pair {
        // SAFETY: as above, and 64 bytes are readable.
        unsafe { Pair(_mm256_loadu_ps(at.cast()), _mm256_loadu_ps(at.add(32).cast())) }
    }

    #[inline(always)]
    unsafe fn store(self, at: *mut u8) {
        // SAFETY: as above, and 64 bytes are writable.
        unsafe {
            _mm256_storeu_ps(at.cast(), self.0);
            _mm256_storeu_ps(at.add(32).cast(), self.1);
        }
    }

    #[inline(always)]
    unsafe fn load_f16(at: *const u8) -> Pair {
        // SAFETY: as above, and 32 bytes are readable.
        unsafe {
            Pair(_mm256_cvtph_ps(_mm_loadu_si128(at.cast())), _mm256_cvtph_ps(_mm_loadu_si128(at.add(16).cast())))
        }
    }

    #[inline(always)]
    unsafe fn load_i8(at: *const u8) -> Pair {
        // SAFETY: as above, and 16 bytes are readable.
        unsafe {
            Pair(
                _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(at.cast()))),
                _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(at.add(8).cast()))),
            )
        }
    }

    #[inline(always)]
    unsafe fn load_u4(at: *const u8, bit: usize) -> Pair {
        // SAFETY: as above, and 16 bytes are readable.
        unsafe {
            let eight = |bytes: __m128i| {
                let wide = _mm256_srl_epi32(_mm256_cvtepu8_epi32(bytes), _mm_cvtsi64_si128(bit as i64));
                let quants = _mm256_and_si256(wide, _mm256_set1_epi32(15));
                _mm256_cvtepi32_ps(_mm256_sub_epi32(quants, _mm256_set1_epi32(8)))
            };
            Pair(eight(_mm_loadl_epi64(at.cast())), eight(_mm_loadl_epi64(at.add(8).cast())))
        }
    }

    #[inline(always)]
    unsafe fn splat_f16(at: *const u8) -> Pair {
        // SAFETY: as above, and 2 bytes are readable.
        unsafe {
            let x = _mm256_cvtph_ps(_mm_set1_epi16(at.cast::<i16>().read_unaligned()));
            Pair(x, x)
        }
    }

    #[inline(always)]
    unsafe fn prefetch(at: *const u8) {
        // SAFETY: every x86-64 processor has the instruction, and it faults at no address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.wrapping_add(AHEAD).cast()) };
    }

    /// Eight sums in registers: four multiplications in flight on each of two ports. Half as many for one query where
    /// scales take registers too: with eight, some of them lie in memory.
    #[inline(always)]
    unsafe fn run<S: Source<Pair>>(product: Product<S>, queries: usize) {
        let mut q = 0;
        // SAFETY: the caller's promise.
        unsafe {
            while q + 4 <= queries {
                strip::<Pair, S, 4, 1, 1>(product.from(q, 0));
                q += 4;
            }
            while q + 2 <= queries {
                strip::<Pair, S, 2, 2, 1>(product.from(q, 0));
                q += 2;
            }
            while q < queries {
                match S::SCALED {
                    true => strip::<Pair, S, 1, 2, 1>(product.from(q, 0)),
                    false => strip::<Pair, S, 1, 4, 2>(product.from(q, 0)),
                }
                q += 1;
            }
        }
    }
}
