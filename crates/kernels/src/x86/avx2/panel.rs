//! Panels: eight rows of 256 columns, unpacked so that lane = row and each i32 of a register holds four columns.
//! A register of them meets four activations in every lane, so that activations need no rearrangement.
//!
//! Integers only; scales and minima are data that `panels` applies.

use std::arch::asm;
use std::arch::x86_64::*;

use super::registers::load_256;
use crate::weights::Minima;

/// Repeats a block for a constant from 0 to 7: as a loop it would stay one.
macro_rules! unroll {
    ($k:ident, $body:block) => {
        unroll!($k, $body, 0 1 2 3 4 5 6 7)
    };
    ($k:ident, $body:block, $($value:literal)*) => {
        $({
            const $k: usize = $value;
            $body
        })*
    };
}
pub(in crate::x86) use unroll;

/// Four columns of eight rows.
pub type Columns = [u8; 32];

/// Eight unpacked rows of 256 columns.
///
/// # Safety
/// Consists of numbers: any bytes are a value.
pub unsafe trait Panel: Copy {
    /// Which minima there are.
    const MINIMA: Minima;
    /// What the columns are to be reduced by.
    const OFFSET: i16;
    /// Whether each half of a block has a factor of its own.
    const HALVES: bool;
    /// Whether weights are nibbles, two of which fit a byte.
    const NIBBLES: bool = false;

    /// What the integer sums of a block are to be multiplied with, lane = row.
    fn scale(&self, block: usize) -> &[f32; 8];

    /// The negated minimum of half `half` of a block; where there is one for the whole block, `half` is 0.
    fn minimum(&self, block: usize, half: usize) -> &[f32; 8];

    /// Exact integer sums of block `block` of group `group` of each panel times each input's, lane = row.
    /// `x` and the sums of its halves start with the first group.
    ///
    /// # Safety
    /// The processor has AVX2, FMA and F16C.
    unsafe fn sums<const P: usize, const T: usize, const G: usize>(
        panels: &[[Self; G]; P],
        group: usize,
        block: usize,
        x: &[&[[i8; 32]]; T],
        x_sums: &[&[[i16; 2]]; T],
    ) -> [[__m256i; P]; T];
}

/// Sums of products of two, i16: of columns `4K` of each panel with each input, added to `sums` but for the first of
/// every `DEPTH`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn step<const K: usize, const DEPTH: usize, const P: usize, const T: usize>(
    sums: &mut [[__m256i; P]; T],
    columns: [&Columns; P],
    x: [&[i8; 32]; T],
) {
    for t in 0..T {
        let x = broadcast(x[t], K);
        for p in 0..P {
            let products = _mm256_maddubs_epi16(load_256(columns[p], 0), x);
            sums[t][p] = keep(if K.is_multiple_of(DEPTH) { products } else { _mm256_add_epi16(sums[t][p], products) });
        }
    }
}

/// Activations `4k..4k + 4` in every lane.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn broadcast(x: &[i8; 32], k: usize) -> __m256i {
    let four = [x[4 * k], x[4 * k + 1], x[4 * k + 2], x[4 * k + 3]].map(|x| x as u8);
    _mm256_set1_epi32(i32::from_le_bytes(four))
}

/// Both sums in every lane.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn pair([a, b]: [i16; 2]) -> __m256i {
    _mm256_set1_epi32(i32::from(a as u16) | i32::from(b) << 16)
}

/// The value itself. Hides from the compiler that it is a sum: it would regroup the sums of a tile, input by input, and
/// spill the weights.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn keep(mut register: __m256i) -> __m256i {
    // SAFETY: no instruction is emitted.
    unsafe { asm!("/* {0} */", inout(ymm_reg) register, options(nomem, nostack, preserves_flags)) };
    register
}
