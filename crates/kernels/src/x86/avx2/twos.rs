//! The byte products of AVX2, which add two columns in 16 bits: several of them are added before they are widened.

use crate::unroll::unroll;
use std::arch::x86_64::*;

use super::fold::{fold_middle_halves, fold_narrow, fold_narrow_halves, fold_wide};
use super::format::GROUP;
use super::halves::Factors;
use super::multiply::Multiply;
use super::panel::{Columns, broadcast, half_sum, keep, pair};
use super::registers::{load_256, load_i16, load_quants};
use super::wide::Wide;

/// AVX2's.
#[derive(Clone, Copy)]
pub struct Twos;

impl Multiply for Twos {
    type Signed = Wide;
    /// With two panels, 8 sums, which leaves registers for what is multiplied.
    const INPUTS: usize = 4;
    const FEW_SIGNED: usize = 4;

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn block<const DEPTH: usize, const OFFSET: i16, const P: usize, const T: usize>(
        columns: [&[Columns; 8]; P],
        x: [&[i8; 32]; T],
        x_sums: [[i16; 2]; T],
    ) -> [[__m256i; P]; T] {
        let ones = _mm256_set1_epi16(1);
        let mut sums = [[_mm256_setzero_si256(); P]; T];
        let mut total = sums;
        unroll!(K, {
            step::<K, DEPTH, P, T>(&mut sums, columns, x);
            if const { K % DEPTH == DEPTH - 1 } {
                for t in 0..T {
                    for p in 0..P {
                        let wide = _mm256_madd_epi16(sums[t][p], ones);
                        total[t][p] = if K < DEPTH { wide } else { _mm256_add_epi32(total[t][p], wide) };
                    }
                }
            }
        });
        if OFFSET != 0 {
            for t in 0..T {
                let offset = _mm256_madd_epi16(pair(x_sums[t]), _mm256_set1_epi16(OFFSET));
                for p in 0..P {
                    total[t][p] = _mm256_sub_epi32(total[t][p], offset);
                }
            }
        }
        total
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn half<const HALF: usize, const DEPTH: usize, const OFFSET: i16, const P: usize, const T: usize>(
        columns: [&[Columns; 8]; P],
        x: [&[i8; 32]; T],
        x_sums: [[i16; 2]; T],
    ) -> [[__m256i; P]; T] {
        let mut sums = [[_mm256_setzero_si256(); P]; T];
        let mut total = sums;
        unroll!(K, {
            if const { K / 4 == HALF } {
                step::<K, DEPTH, P, T>(&mut sums, columns, x);
                if const { K % DEPTH == DEPTH - 1 } {
                    for t in 0..T {
                        for p in 0..P {
                            let wide = _mm256_madd_epi16(sums[t][p], _mm256_set1_epi16(1));
                            total[t][p] = if K % 4 < DEPTH { wide } else { _mm256_add_epi32(total[t][p], wide) };
                        }
                    }
                }
            }
        });
        for t in 0..T {
            let offset = half_sum(x_sums[t], HALF, OFFSET);
            for p in 0..P {
                total[t][p] = _mm256_sub_epi32(total[t][p], offset);
            }
        }
        total
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn halves<const DEPTH: usize, const OFFSET: i16, const P: usize, const T: usize>(
        columns: [&[Columns; 8]; P],
        factors: [&Factors; P],
        x: [&[i8; 32]; T],
        x_sums: [[i16; 2]; T],
    ) -> [[__m256; P]; T] {
        let mut sums = [[_mm256_setzero_si256(); P]; T];
        let mut total = sums;
        unroll!(K, {
            step::<K, DEPTH, P, T>(&mut sums, columns, x);
            if const { K % DEPTH == DEPTH - 1 } {
                for p in 0..P {
                    let factors = load_i16(&factors[p].twice[K / 4]);
                    for t in 0..T {
                        let wide = _mm256_madd_epi16(sums[t][p], factors);
                        total[t][p] = if K < DEPTH { wide } else { _mm256_add_epi32(total[t][p], wide) };
                    }
                }
            }
        });
        let mut floats = [[_mm256_setzero_ps(); P]; T];
        for t in 0..T {
            let x_sums = pair(x_sums[t]);
            for p in 0..P {
                if OFFSET != 0 {
                    let offset = _mm256_madd_epi16(load_i16(&factors[p].offsets), x_sums);
                    total[t][p] = _mm256_sub_epi32(total[t][p], offset);
                }
                floats[t][p] = _mm256_cvtepi32_ps(total[t][p]);
            }
        }
        floats
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn narrow(weights: [__m256i; 8], x: &[i8; GROUP]) -> __m256i {
        fold_narrow(fours(weights, x))
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn narrow_halves(weights: [__m256i; 8], x: &[i8; GROUP]) -> [__m256i; 2] {
        fold_narrow_halves(fours(weights, x))
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn middle_halves(weights: [__m256i; 8], x: &[i8; GROUP]) -> [__m256i; 2] {
        fold_middle_halves(fours(weights, x))
    }

    /// Exact for weights down to -128, since no activation is: 2 * 128 * 127 < 2^15.
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn signed(weights: [__m256i; 8], x: &[i8; GROUP], _: __m256i) -> __m256i {
        let mut fours = [_mm256_setzero_si256(); 8];
        for j in 0..8 {
            let x = _mm256_sign_epi8(load_quants(x, j * 32), weights[j]);
            fours[j] = four(_mm256_abs_epi8(weights[j]), x);
        }
        fold_wide(fours)
    }
}

/// Sums of products of four, i32.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn four(weights: __m256i, x: __m256i) -> __m256i {
    _mm256_madd_epi16(_mm256_maddubs_epi16(weights, x), _mm256_set1_epi16(1))
}

/// The same of eight blocks.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn fours(weights: [__m256i; 8], x: &[i8; GROUP]) -> [__m256i; 8] {
    let mut fours = [_mm256_setzero_si256(); 8];
    for j in 0..8 {
        fours[j] = four(weights[j], load_quants(x, j * 32));
    }
    fours
}

/// Sums of products of two, i16: of columns `4K` of each panel with each input, added to `sums` except for the first of
/// every `DEPTH`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn step<const K: usize, const DEPTH: usize, const P: usize, const T: usize>(
    sums: &mut [[__m256i; P]; T],
    columns: [&[Columns; 8]; P],
    x: [&[i8; 32]; T],
) {
    for t in 0..T {
        let x = broadcast(x[t], K);
        for p in 0..P {
            let products = _mm256_maddubs_epi16(load_256(&columns[p][K], 0), x);
            sums[t][p] = keep(if K.is_multiple_of(DEPTH) { products } else { _mm256_add_epi16(sums[t][p], products) });
        }
    }
}
