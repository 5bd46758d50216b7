//! Panels of weights with an integer factor per 16 columns: Q2_K, Q3_K, Q6_K, IQ1_M, IQ2_XS and IQ2_S.

use std::arch::x86_64::*;
use std::marker::PhantomData;

use super::multiply::Multiply;
use super::panel::{Columns, Panel};
use super::registers::store_i16;
use crate::array;
use crate::weights::Minima;

/// The factors of a block of each row.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
pub struct Factors {
    /// Per half: the factor of each row, twice.
    pub twice: [[i16; 16]; 2],
    /// Both factors of each row times `OFFSET`.
    pub offsets: [i16; 16],
}

/// Unsigned weights; `OFFSET` is what they are to be reduced by.
/// `DEPTH` products of two may be added as i16: 4 for up to 3 bits, 2 for 6 (2 * 2 * 63 * 127 < 2^15), 1 for 7.
#[derive(Clone, Copy)]
#[repr(align(32))]
pub struct Halves<M, const DEPTH: usize, const OFFSET: i16> {
    pub quants: [[Columns; 8]; 8],
    factors: [Factors; 8],
    /// Of all blocks.
    pub scale: [f32; 8],
    pub minima: [[[f32; 8]; 2]; 8],
    multiply: PhantomData<M>,
}

impl<M, const DEPTH: usize, const OFFSET: i16> Halves<M, DEPTH, OFFSET> {
    /// Sets the factors of a block: those of both halves as the i16 of a lane, lane = row.
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    pub fn set_factors(&mut self, block: usize, factors: __m256i) {
        let low = _mm256_and_si256(factors, _mm256_set1_epi32(0xffff));
        let high = _mm256_srli_epi32::<16>(factors);
        let twice = |factor| _mm256_or_si256(factor, _mm256_slli_epi32::<16>(factor));
        let block = &mut self.factors[block];
        store_i16(&mut block.twice[0], twice(low));
        store_i16(&mut block.twice[1], twice(high));
        store_i16(&mut block.offsets, _mm256_mullo_epi16(factors, _mm256_set1_epi16(OFFSET)));
    }
}

// SAFETY: its fields are arrays of numbers.
unsafe impl<M: Multiply, const DEPTH: usize, const OFFSET: i16> Panel for Halves<M, DEPTH, OFFSET> {
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
    ) -> [[__m256; P]; T] {
        let at = group * 8 + block;
        let columns = array::of(|p| &panels[p][group].quants[block]);
        let factors = array::of(|p| &panels[p][group].factors[block]);
        let (x, x_sums) = (array::of(|t| &x[t][at]), array::of(|t| x_sums[t][at]));
        // SAFETY: this function's caller has promised the features that `halves` asks for.
        unsafe { M::halves::<DEPTH, OFFSET, P, T>(columns, factors, x, x_sums) }
    }
}
