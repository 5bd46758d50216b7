//! The byte dot products of AVX-VNNI, which add four columns to 32 bits: nothing has to be widened. Signed weights go by what
//! they are above -128.

use crate::array::Each;
use crate::unroll::unroll;
use std::arch::asm;
use std::arch::x86_64::*;

use crate::x86::avx2::fold::{fold_middle_halves, fold_narrow, fold_narrow_halves, fold_wide};
use crate::x86::avx2::format::GROUP;
use crate::x86::avx2::halves::Factors;
use crate::x86::avx2::multiply::{Multiply, Signed};
use crate::x86::avx2::narrow::Narrow;
use crate::x86::avx2::panel::{Columns, broadcast, half_sum, pair};
use crate::x86::avx2::registers::{load_256, load_i16, store_256};

/// What signed weights are raised by.
const RAISED: i16 = 128;

/// AVX-VNNI's.
#[derive(Clone, Copy)]
pub struct Fours;

/// `sums` and the products of four unsigned bytes with four signed ones.
///
/// The instruction by its name, since a function that has one feature more would not become part of one that is written
/// for AVX2's too. It also keeps the compiler from regrouping the sums of a tile.
///
/// # Safety
/// The processor has AVX-VNNI.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub unsafe fn add_fours(mut sums: __m256i, weights: __m256i, x: __m256i) -> __m256i {
    // SAFETY: the caller has promised the instruction, which touches registers alone.
    unsafe {
        asm!(
            "{{vex}} vpdpbusd {0}, {1}, {2}",
            inout(ymm_reg) sums,
            in(ymm_reg) weights,
            in(ymm_reg) x,
            options(nomem, nostack, preserves_flags),
        );
    }
    sums
}

impl Multiply for Fours {
    type Signed = Narrow<Fours, 1, RAISED>;
    /// With two panels 12 sums: nothing comes between the bytes and their sums.
    const INPUTS: usize = 6;
    const FEW_SIGNED: usize = 1;

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn block<const DEPTH: usize, const OFFSET: i16, const P: usize, const T: usize>(
        columns: [&[Columns; 8]; P],
        x: [&[i8; 32]; T],
        x_sums: [[i16; 2]; T],
    ) -> [[__m256i; P]; T] {
        let mut sums = [[_mm256_setzero_si256(); P]; T];
        if OFFSET != 0 {
            for t in 0..T {
                sums[t] = [_mm256_madd_epi16(pair(x_sums[t]), _mm256_set1_epi16(-OFFSET)); P];
            }
        }
        unroll!(K, {
            // SAFETY: this function's caller has promised the products.
            unsafe { step::<K, P, T>(&mut sums, columns, x) };
        });
        sums
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn half<const HALF: usize, const DEPTH: usize, const OFFSET: i16, const P: usize, const T: usize>(
        columns: [&[Columns; 8]; P],
        x: [&[i8; 32]; T],
        x_sums: [[i16; 2]; T],
    ) -> [[__m256i; P]; T] {
        let mut sums = [[_mm256_setzero_si256(); P]; T];
        if OFFSET != 0 {
            for t in 0..T {
                sums[t] = [half_sum(x_sums[t], HALF, -OFFSET); P];
            }
        }
        unroll!(K, {
            if const { K / 4 == HALF } {
                // SAFETY: this function's caller has promised the products.
                unsafe { step::<K, P, T>(&mut sums, columns, x) };
            }
        });
        sums
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn halves<const DEPTH: usize, const OFFSET: i16, const P: usize, const T: usize>(
        columns: [&[Columns; 8]; P],
        factors: [&Factors; P],
        x: [&[i8; 32]; T],
        x_sums: [[i16; 2]; T],
    ) -> [[__m256; P]; T] {
        const SECOND: i32 = 0b1010_1010;
        // SAFETY: this function's caller has promised the products.
        let first = unsafe { Self::half::<0, DEPTH, OFFSET, P, T>(columns, x, x_sums) };
        // SAFETY: as above.
        let sums = unsafe { Self::half::<1, DEPTH, OFFSET, P, T>(columns, x, x_sums) };
        let mut floats = [[_mm256_setzero_ps(); P]; T];
        for p in 0..P {
            let [a, b] = factors[p].twice.each_ref().each(|factors| load_i16(factors));
            let both = _mm256_blend_epi16::<SECOND>(a, b);
            let each = [a, b].each(|factors| _mm256_cvtepi32_ps(_mm256_srai_epi32::<16>(factors)));
            for t in 0..T {
                floats[t][p] = if DEPTH == 4 {
                    // Sums of 16 weights of up to 3 bits fit 16 bits.
                    let words = _mm256_blend_epi16::<SECOND>(first[t][p], _mm256_slli_epi32::<16>(sums[t][p]));
                    _mm256_cvtepi32_ps(_mm256_madd_epi16(words, both))
                } else {
                    // Both products are below 2^24, so that only their sum is rounded, as that of integers is.
                    let product = _mm256_mul_ps(_mm256_cvtepi32_ps(first[t][p]), each[0]);
                    _mm256_fmadd_ps(_mm256_cvtepi32_ps(sums[t][p]), each[1], product)
                };
            }
        }
        floats
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn narrow(weights: [__m256i; 8], x: &[i8; GROUP]) -> __m256i {
        // SAFETY: this function's caller has promised the products.
        fold_narrow(unsafe { fours(weights, x) })
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn narrow_halves(weights: [__m256i; 8], x: &[i8; GROUP]) -> [__m256i; 2] {
        // SAFETY: as above.
        fold_narrow_halves(unsafe { fours(weights, x) })
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn middle_halves(weights: [__m256i; 8], x: &[i8; GROUP]) -> [__m256i; 2] {
        // SAFETY: as above.
        fold_middle_halves(unsafe { fours(weights, x) })
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn signed(weights: [__m256i; 8], x: &[i8; GROUP], x_sums: __m256i) -> __m256i {
        let offset = _mm256_madd_epi16(x_sums, _mm256_set1_epi16(RAISED));
        // SAFETY: as above.
        let sums = fold_wide(unsafe { fours(weights.each(|weights| raised(weights)), x) });
        _mm256_sub_epi32(sums, offset)
    }
}

impl Signed for Narrow<Fours, 1, RAISED> {
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn set(&mut self, block: usize, k: usize, weights: __m256i) {
        store_256(&mut self.quants[block][k], raised(weights));
    }

    fn scales(&mut self) -> &mut [[f32; 8]; 8] {
        &mut self.scales
    }
}

/// Signed weights plus [`RAISED`].
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn raised(weights: __m256i) -> __m256i {
    _mm256_xor_si256(weights, _mm256_set1_epi8(-128))
}

/// Adds the products of columns `4K` of each panel with each input.
///
/// # Safety
/// The processor has AVX-VNNI.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn step<const K: usize, const P: usize, const T: usize>(
    sums: &mut [[__m256i; P]; T],
    columns: [&[Columns; 8]; P],
    x: [&[i8; 32]; T],
) {
    for t in 0..T {
        let x = broadcast(x[t], K);
        for p in 0..P {
            // SAFETY: as this function's.
            sums[t][p] = unsafe { add_fours(sums[t][p], load_256(&columns[p][K], 0), x) };
        }
    }
}

/// Sums of products of four of eight blocks.
///
/// # Safety
/// The processor has AVX-VNNI.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn fours(weights: [__m256i; 8], x: &[i8; GROUP]) -> [__m256i; 8] {
    let mut fours = [_mm256_setzero_si256(); 8];
    unroll!(J, {
        // SAFETY: the caller has promised the instruction, which reads 32 of the 256 bytes.
        unsafe {
            asm!(
                "{{vex}} vpdpbusd {sums}, {weights}, ymmword ptr [{x} + {at}]",
                sums = inout(ymm_reg) fours[J],
                weights = in(ymm_reg) weights[J],
                x = in(reg) x.as_ptr(),
                at = const 32 * J,
                options(pure, readonly, nostack, preserves_flags),
            );
        }
    });
    fours
}
