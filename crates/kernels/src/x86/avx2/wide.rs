//! Panels of weights of 8 bits with one scale per block of 32: Q8_0 and the tables of 16 of IQ4_NL and IQ4_XS.
//!
//! Two products of 8 bits fill an i16, so that each would have to be widened before the next is added. Instead a
//! weight plus 128 is cut into nibbles: twice the products, but 8 of them are added before they are widened.

use std::arch::x86_64::*;

use super::panel::{Columns, Panel, pair, step, unroll};
use super::registers::store_256;
use crate::weights::Minima;

/// Weights plus 128 as low and high nibbles.
#[derive(Clone, Copy)]
#[repr(align(32))]
pub struct Wide {
    quants: [[[Columns; 8]; 2]; 8],
    pub scales: [[f32; 8]; 8],
}

impl Wide {
    /// Sets columns `4k` of a block from signed weights.
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    pub fn set(&mut self, block: usize, k: usize, weights: __m256i) {
        let [low, high] = &mut self.quants[block];
        let nibble = _mm256_set1_epi8(15);
        let unsigned = _mm256_xor_si256(weights, _mm256_set1_epi8(-128));
        store_256(&mut low[k], _mm256_and_si256(unsigned, nibble));
        store_256(&mut high[k], _mm256_and_si256(_mm256_srli_epi16::<4>(unsigned), nibble));
    }
}

impl Panel for Wide {
    const ZERO: Self = Wide { quants: [[[[0; 32]; 8]; 2]; 8], scales: [[0.0; 8]; 8] };
    const MINIMA: Minima = Minima::None;
    const OFFSET: i16 = 128;
    const HALVES: bool = false;

    #[inline]
    fn scale(&self, block: usize) -> &[f32; 8] {
        &self.scales[block]
    }

    #[inline]
    fn minimum(&self, block: usize, _: usize) -> &[f32; 8] {
        &self.scales[block] // no format of this kind has minima
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
        let mut total = [[_mm256_setzero_si256(); P]; T];
        for t in 0..T {
            let offset = _mm256_madd_epi16(pair(x_sums[t][group * 8 + block]), _mm256_set1_epi16(-128));
            total[t] = [offset; P];
        }
        for (nibble, weight) in [1, 16].into_iter().enumerate() {
            let mut sums = [[_mm256_setzero_si256(); P]; T];
            unroll!(K, {
                let columns = std::array::from_fn(|p| &panels[p][group].quants[block][nibble][K]);
                step::<K, 8, P, T>(&mut sums, columns, x_at);
            });
            for t in 0..T {
                for p in 0..P {
                    let wide = _mm256_madd_epi16(sums[t][p], _mm256_set1_epi16(weight));
                    total[t][p] = _mm256_add_epi32(total[t][p], wide);
                }
            }
        }
        total
    }
}
