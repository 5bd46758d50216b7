//! Attention on registers of 16; products are fused with their sums.

use std::arch::x86_64::*;

use candor_quant::Format;

use super::float_loops::LOOPS;
use crate::attention::tiles::{AHEAD, Product, Source, Wide, products, rows, strip};
use crate::scalar::attention::{put_key_f16, put_value_f16};
use crate::{AttentionKernels, Kernels, OutTile, Queries, Weights};

/// Sixteen floats.
#[derive(Clone, Copy)]
pub struct Sixteen(pub __m512);

rows!("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c", Sixteen, LOOPS.to_f16);

// SAFETY: each method reads and writes 16 numbers, or the one that its name says.
unsafe impl Wide for Sixteen {
    type Steps = Sixteen;
    const STEPS: usize = 1;
    const TOGETHER: usize = 8;
    const LEAST_STEPS: usize = 32;

    #[inline(always)]
    unsafe fn zero() -> Sixteen {
        // SAFETY: the caller has the instruction set.
        unsafe { Sixteen(_mm512_setzero_ps()) }
    }

    #[inline(always)]
    unsafe fn step(at: *const f32) -> Sixteen {
        // SAFETY: as above, and a float is readable.
        unsafe { Sixteen(_mm512_set1_ps(at.read_unaligned())) }
    }

    #[inline(always)]
    unsafe fn steps(at: *const f32) -> Sixteen {
        // SAFETY: as above.
        unsafe { Self::step(at) }
    }

    #[inline(always)]
    unsafe fn plus<const STEP: i32>(self, a: Sixteen, b: Sixteen) -> Sixteen {
        // SAFETY: as above.
        unsafe { Sixteen(_mm512_fmadd_ps(a.0, b.0, self.0)) }
    }

    #[inline(always)]
    unsafe fn times(self, b: Sixteen) -> Sixteen {
        // SAFETY: as above.
        unsafe { Sixteen(_mm512_mul_ps(self.0, b.0)) }
    }

    #[inline(always)]
    unsafe fn load(at: *const u8) -> Sixteen {
        // SAFETY: as above, and 64 bytes are readable.
        unsafe { Sixteen(_mm512_loadu_ps(at.cast())) }
    }

    #[inline(always)]
    unsafe fn store(self, at: *mut u8) {
        // SAFETY: as above, and 64 bytes are writable.
        unsafe { _mm512_storeu_ps(at.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn load_f16(at: *const u8) -> Sixteen {
        // SAFETY: as above, and 32 bytes are readable.
        unsafe { Sixteen(_mm512_cvtph_ps(_mm256_loadu_si256(at.cast()))) }
    }

    #[inline(always)]
    unsafe fn load_i8(at: *const u8) -> Sixteen {
        // SAFETY: as above, and 16 bytes are readable.
        unsafe { Sixteen(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(at.cast())))) }
    }

    #[inline(always)]
    unsafe fn load_u4(at: *const u8, bit: usize) -> Sixteen {
        // SAFETY: as above, and 16 bytes are readable.
        unsafe {
            let wide = _mm512_cvtepu8_epi32(_mm_loadu_si128(at.cast()));
            let quants = _mm512_and_si512(_mm512_srl_epi32(wide, _mm_cvtsi64_si128(bit as i64)), _mm512_set1_epi32(15));
            Sixteen(_mm512_cvtepi32_ps(_mm512_sub_epi32(quants, _mm512_set1_epi32(8))))
        }
    }

    #[inline(always)]
    unsafe fn splat_f16(at: *const u8) -> Sixteen {
        // SAFETY: as above, and 2 bytes are readable.
        unsafe { Sixteen(_mm512_cvtph_ps(_mm256_set1_epi16(at.cast::<i16>().read_unaligned()))) }
    }

    #[inline(always)]
    unsafe fn prefetch(at: *const u8) {
        // SAFETY: every x86-64 processor has the instruction, and it faults at no address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.wrapping_add(AHEAD).cast()) };
    }

    #[inline(always)]
    unsafe fn run<S: Source<Sixteen>>(product: Product<S>, queries: usize) {
        let mut q = 0;
        // SAFETY: the caller's promise.
        unsafe {
            while q + 8 <= queries {
                // On Zen 4 three groups are 1.1x as quick as two, one alone 1.02x as quick as three; that takes nine loads for
                // eight products, more than processors with two multipliers have time for.
                if S::SCALED {
                    strip::<Sixteen, S, 8, 2, 1>(product.from(q, 0));
                } else {
                    strip::<Sixteen, S, 8, 3, 1>(product.from(q, 0));
                }
                q += 8;
            }
            while q + 4 <= queries {
                strip::<Sixteen, S, 4, 4, 2>(product.from(q, 0));
                q += 4;
            }
            while q + 2 <= queries {
                strip::<Sixteen, S, 2, 4, 2>(product.from(q, 0));
                q += 2;
            }
            while q < queries {
                strip::<Sixteen, S, 1, 8, 4>(product.from(q, 0));
                q += 1;
            }
        }
    }
}
