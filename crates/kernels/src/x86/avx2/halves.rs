//! Panels of weights with an integer factor per 16 columns: Q2_K, Q3_K, Q6_K.

use std::arch::x86_64::*;

use super::panel::{Columns, Panel, pair, step, unroll};
use super::registers::{load_i16, store_i16};
use crate::weights::Minima;

/// Unsigned weights; `OFFSET` is what they are to be reduced by.
/// `DEPTH` products of two are added as i16: 4 for up to 3 bits, 2 for 6 (2 * 2 * 63 * 127 < 2^15).
#[derive(Clone, Copy)]
#[repr(align(32))]
pub struct Halves<const DEPTH: usize, const OFFSET: i16> {
    pub quants: [[Columns; 8]; 8],
    /// Per block and half: the factor of each row, twice.
    factors: [[[i16; 16]; 2]; 8],
    /// Per block: both factors of each row times `OFFSET`.
    offsets: [[i16; 16]; 8],
    /// Of all blocks.
    pub scale: [f32; 8],
    pub minima: [[[f32; 8]; 2]; 8],
}

impl<const DEPTH: usize, const OFFSET: i16> Halves<DEPTH, OFFSET> {
    /// Sets the factors of a block: those of both halves as the i16 of a lane, lane = row.
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    pub fn set_factors(&mut self, block: usize, factors: __m256i) {
        let low = _mm256_and_si256(factors, _mm256_set1_epi32(0xffff));
        let high = _mm256_srli_epi32::<16>(factors);
        let twice = |factor| _mm256_or_si256(factor, _mm256_slli_epi32::<16>(factor));
        store_i16(&mut self.factors[block][0], twice(low));
        store_i16(&mut self.factors[block][1], twice(high));
        store_i16(&mut self.offsets[block], _mm256_mullo_epi16(factors, _mm256_set1_epi16(OFFSET)));
    }
}

// SAFETY: its fields are arrays of numbers.
unsafe impl<const DEPTH: usize, const OFFSET: i16> Panel for Halves<DEPTH, OFFSET> {
    const MINIMA: Minima = if OFFSET == 0 { Minima::Halves } else { Minima::None };
    const OFFSET: i16 = OFFSET;
    const HALVES: bool = true;

    #[inline]
    fn scale(&self, _: usize) -> &[f32; 8] {
        &self.scale
    }

    #[inline]
    fn minimum(&self, block: usize, half: usize) -> &[f32; 8] {
        &self.minima[block][half]
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn sums<const P: usize, const T: usize, const G: usize>(
        panels: &[[Self; G]; P],
        group: usize,
        block: usize,
        x: &[&[[i8; 32]]; T],
        x_sums: &[&[[i16; 2]]; T],
    ) -> [[__m256i; P]; T] {
        let x_at = std::array::from_fn(|t| &x[t][group * 8 + block]);
        let mut sums = [[_mm256_setzero_si256(); P]; T];
        let mut total = sums;
        unroll!(K, {
            let columns = std::array::from_fn(|p| &panels[p][group].quants[block][K]);
            step::<K, DEPTH, P, T>(&mut sums, columns, x_at);
            if K % DEPTH == DEPTH - 1 {
                for p in 0..P {
                    let factors = load_i16(&panels[p][group].factors[block][K / 4]);
                    for t in 0..T {
                        let wide = _mm256_madd_epi16(sums[t][p], factors);
                        total[t][p] = if K < DEPTH { wide } else { _mm256_add_epi32(total[t][p], wide) };
                    }
                }
            }
        });
        if OFFSET != 0 {
            for t in 0..T {
                let x_sums = pair(x_sums[t][group * 8 + block]);
                for p in 0..P {
                    let offset = _mm256_madd_epi16(load_i16(&panels[p][group].offsets[block]), x_sums);
                    total[t][p] = _mm256_sub_epi32(total[t][p], offset);
                }
            }
        }
        total
    }
}
