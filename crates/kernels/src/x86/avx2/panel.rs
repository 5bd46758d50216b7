//! Panels: eight rows of 256 columns, unpacked so that lane = row and each i32 of a register holds four columns.
//! A register of them meets four activations in every lane, so that activations need no rearrangement.
//!
//! Integers only; scales and minima are data that `panels` applies.

use std::arch::asm;
use std::arch::x86_64::*;

use crate::array::Each;
use crate::weights::Minima;

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
    /// Whether these factors are floats, and the only scales.
    const FLOATS: bool = false;
    /// Whether weights are nibbles, two of which fit a byte.
    const NIBBLES: bool = false;

    /// What the integer sums of a block are to be multiplied with, lane = row.
    fn scale(&self, block: usize) -> &[f32; 8];

    /// The negated minimum of half `half` of a block; where there is one for the whole block, `half` is 0.
    fn minimum(&self, block: usize, half: usize) -> &[f32; 8];

    /// Integer sums of block `block` of group `group` of each panel times each input's, lane = row, exact until they are
    /// rounded once to be floats. `x` and the sums of its halves start with the first group.
    ///
    /// # Safety
    /// The processor has AVX2, FMA and F16C, and what the panel is multiplied by.
    unsafe fn sums<const P: usize, const T: usize, const G: usize>(
        panels: &[[Self; G]; P],
        group: usize,
        block: usize,
        x: &[&[[i8; 32]]; T],
        x_sums: &[&[[i16; 2]]; T],
    ) -> [[__m256; P]; T];
}

/// Activations `4k..4k + 4` in every lane.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn broadcast(x: &[i8; 32], k: usize) -> __m256i {
    let four = [x[4 * k], x[4 * k + 1], x[4 * k + 2], x[4 * k + 3]].each(|x| x as u8);
    _mm256_set1_epi32(i32::from_le_bytes(four))
}

/// Both sums in every lane.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn pair([a, b]: [i16; 2]) -> __m256i {
    _mm256_set1_epi32(i32::from(a as u16) | i32::from(b) << 16)
}

/// `factor` times the sum of half `half` in every lane.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn half_sum(sums: [i16; 2], half: usize, factor: i16) -> __m256i {
    _mm256_madd_epi16(pair(sums), _mm256_set1_epi32((i32::from(factor) & 0xffff) << (16 * half)))
}

/// Sums as floats.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn floats<const P: usize, const T: usize>(sums: [[__m256i; P]; T]) -> [[__m256; P]; T] {
    let mut floats = [[_mm256_setzero_ps(); P]; T];
    for t in 0..T {
        for p in 0..P {
            floats[t][p] = _mm256_cvtepi32_ps(sums[t][p]);
        }
    }
    floats
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
