//! Panels of weights of up to 5 bits with one scale per block of 32: Q4_0, Q4_1, Q4_K, Q5_0, Q5_1, Q5_K.

use std::arch::x86_64::*;

use super::panel::{Columns, Panel, pair, step, unroll};
use crate::weights::Minima;

/// Unsigned weights; `OFFSET` is what they are to be reduced by.
/// `DEPTH` products of two are added as i16: 8 for 4 bits (8 * 2 * 15 * 127 < 2^15), 4 for 5.
#[derive(Clone, Copy)]
#[repr(align(32))]
pub struct Narrow<const DEPTH: usize, const OFFSET: i16> {
    pub quants: [[Columns; 8]; 8],
    pub scales: [[f32; 8]; 8],
    pub minima: [[f32; 8]; 8],
}

// SAFETY: its fields are arrays of numbers.
unsafe impl<const DEPTH: usize, const OFFSET: i16> Panel for Narrow<DEPTH, OFFSET> {
    const MINIMA: Minima = if OFFSET == 0 { Minima::Whole } else { Minima::None };
    const OFFSET: i16 = OFFSET;
    const HALVES: bool = false;
    const NIBBLES: bool = DEPTH == 8;

    #[inline]
    fn scale(&self, block: usize) -> &[f32; 8] {
        &self.scales[block]
    }

    #[inline]
    fn minimum(&self, block: usize, _: usize) -> &[f32; 8] {
        &self.minima[block]
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
        let ones = _mm256_set1_epi16(1);
        let mut sums = [[_mm256_setzero_si256(); P]; T];
        let mut total = sums;
        unroll!(K, {
            let columns = std::array::from_fn(|p| &panels[p][group].quants[block][K]);
            step::<K, DEPTH, P, T>(&mut sums, columns, x_at);
            if K % DEPTH == DEPTH - 1 {
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
                let offset = _mm256_madd_epi16(pair(x_sums[t][group * 8 + block]), _mm256_set1_epi16(OFFSET));
                for p in 0..P {
                    total[t][p] = _mm256_sub_epi32(total[t][p], offset);
                }
            }
        }
        total
    }
}
