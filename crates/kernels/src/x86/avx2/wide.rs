//! Panels of weights of 8 bits with one scale per block of 32: Q8_0 and the tables of 16 of IQ4_NL and IQ4_XS.
//!
//! Two products of 8 bits fill an i16, so that each would have to be widened before the next is added. Instead both factors
//! are i16: twice the products, whose sums are i32 at once.

use crate::array;
use crate::unroll::unroll;
use std::arch::x86_64::*;

use super::multiply::Signed;
use super::panel::{Panel, floats, keep};
use super::registers::{load_16_quants, load_i16, store_i16, stored};
use crate::weights::Minima;

/// Two columns of eight rows.
type Pairs = [i16; 16];

/// Weights of `[block][k]`: columns `2k` and `2k + 1`, lane = row.
#[derive(Clone, Copy)]
#[repr(align(32))]
pub struct Wide {
    quants: [[Pairs; 16]; 8],
    scales: [[f32; 8]; 8],
}

impl Signed for Wide {
    fn scales(&mut self) -> &mut [[f32; 8]; 8] {
        &mut self.scales
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn set(&mut self, block: usize, k: usize, weights: __m256i) {
        const NONE: i8 = -1;
        let upper = |a, b| {
            _mm_setr_epi8(
                NONE,
                a,
                NONE,
                a + 1,
                NONE,
                a + 4,
                NONE,
                a + 5,
                NONE,
                b,
                NONE,
                b + 1,
                NONE,
                b + 4,
                NONE,
                b + 5,
            )
        };
        for (half, first) in [0, 2].into_iter().enumerate() {
            let order = _mm256_broadcastsi128_si256(upper(first, first + 8));
            let wide = _mm256_srai_epi16::<8>(_mm256_shuffle_epi8(weights, order));
            store_i16(&mut self.quants[block][2 * k + half], wide);
        }
    }
}

/// Products of columns `2K` and `2K + 1` of each panel with each input.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn step<const K: usize, const P: usize, const T: usize>(
    sums: &mut [[__m256i; P]; T],
    columns: [&[Pairs; 16]; P],
    x: &[[[i16; 16]; 2]; T],
) {
    for t in 0..T {
        let [a, b] = [x[t][K / 8][K % 8 * 2], x[t][K / 8][K % 8 * 2 + 1]];
        let pair = _mm256_set1_epi32(i32::from(a as u16) | i32::from(b) << 16);
        for p in 0..P {
            let products = _mm256_madd_epi16(load_i16(&columns[p][K]), pair);
            sums[t][p] = keep(if K == 0 { products } else { _mm256_add_epi32(sums[t][p], products) });
        }
    }
}

// SAFETY: its fields are arrays of numbers.
unsafe impl Panel for Wide {
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
        _: &[&[[i16; 2]]; T],
    ) -> [[__m256; P]; T] {
        let mut wide = [[[0; 16]; 2]; T];
        for t in 0..T {
            for half in 0..2 {
                let x = load_16_quants(&x[t][group * 8 + block], half * 16);
                store_i16(&mut wide[t][half], _mm256_cvtepi8_epi16(x));
            }
        }
        let wide = stored(&mut wide);
        let mut sums = [[_mm256_setzero_si256(); P]; T];
        let columns = array::of(|p| &panels[p][group].quants[block]);
        unroll!(K, {
            step::<{ 2 * K }, P, T>(&mut sums, columns, wide);
            step::<{ 2 * K + 1 }, P, T>(&mut sums, columns, wide);
        });
        floats(sums)
    }
}
