//! Panels of unsigned weights with one scale per block of 32: Q4_0, Q4_1, Q4_K, Q5_0, Q5_1, Q5_K, MXFP4 and what has codebooks; and where bytes meet bytes in
//! fours, Q8_0, IQ4_NL and IQ4_XS with 128 added.

use std::arch::x86_64::*;
use std::marker::PhantomData;

use super::multiply::Multiply;
use super::panel::{Columns, Panel, floats};
use crate::array;
use crate::weights::Minima;

/// Unsigned weights; `OFFSET` is what they are to be reduced by.
/// `DEPTH` products of two may be added as i16: 8 for 4 bits (8 * 2 * 15 * 127 < 2^15), 4 for 5; for 8 nothing is added so.
#[derive(Clone, Copy)]
#[repr(align(32))]
pub struct Narrow<M, const DEPTH: usize, const OFFSET: i16> {
    pub quants: [[Columns; 8]; 8],
    pub scales: [[f32; 8]; 8],
    pub minima: [[f32; 8]; 8],
    multiply: PhantomData<M>,
}

// SAFETY: its fields are arrays of numbers.
unsafe impl<M: Multiply, const DEPTH: usize, const OFFSET: i16> Panel for Narrow<M, DEPTH, OFFSET> {
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
    ) -> [[__m256; P]; T] {
        let at = group * 8 + block;
        let columns = array::of(|p| &panels[p][group].quants[block]);
        let (x, x_sums) = (array::of(|t| &x[t][at]), array::of(|t| x_sums[t][at]));
        // SAFETY: this function's caller has promised the features that `block` asks for.
        let sums = unsafe { M::block::<DEPTH, OFFSET, P, T>(columns, x, x_sums) };
        floats(sums)
    }
}
