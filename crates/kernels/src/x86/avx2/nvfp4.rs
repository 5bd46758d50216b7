//! NVFP4: 4-bit floats with a float scale per 16 columns.
//!
//! An E4M3 scale has four bits of mantissa and the sum of 16 products fifteen, so that a float holds their product exactly:
//! only the sum of a block's two is rounded.

use std::arch::x86_64::*;
use std::marker::PhantomData;

use candor_quant::Format;

use super::fold::{transpose, transpose_ps};
use super::format::{GROUP, Products, Quant};
use super::k_quants::nibbles;
use super::legacy::{FP4_OFFSET, raised};
use super::multiply::Multiply;
use super::panel::{Columns, Panel};
use super::registers::{load_128, load_256, load_ps, store_256, store_ps};
use crate::array::{self, Each};
use crate::weights::Minima;

const OFFSET: i16 = FP4_OFFSET as i16;

/// Eight rows, raised by `OFFSET`.
#[derive(Clone, Copy)]
#[repr(align(32))]
pub struct Floats<M> {
    quants: [[Columns; 8]; 8],
    /// `[block][half]`, lane = row.
    factors: [[[f32; 8]; 2]; 8],
    multiply: PhantomData<M>,
}

// SAFETY: its fields are arrays of numbers.
unsafe impl<M: Multiply> Panel for Floats<M> {
    const MINIMA: Minima = Minima::None;
    const OFFSET: i16 = OFFSET;
    const HALVES: bool = true;
    const FLOATS: bool = true;

    #[inline]
    fn scale(&self, _: usize) -> &[f32; 8] {
        &[1.0; 8]
    }

    #[inline]
    fn minimum(&self, _: usize, _: usize) -> &[f32; 8] {
        &[0.0; 8]
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
        let mut products = [[_mm256_setzero_ps(); P]; T];
        // No other panel's constants are these, so that `half` becomes part of this function: as a call it cost a third.
        // SAFETY: this function's caller has promised the features that `half` asks for.
        let sums = unsafe { M::half::<0, 4, OFFSET, P, T>(columns, x, x_sums) };
        for p in 0..P {
            let factors = load_ps(&panels[p][group].factors[block][0]);
            for t in 0..T {
                products[t][p] = _mm256_mul_ps(_mm256_cvtepi32_ps(sums[t][p]), factors);
            }
        }
        // SAFETY: as above.
        let sums = unsafe { M::half::<1, 4, OFFSET, P, T>(columns, x, x_sums) };
        for p in 0..P {
            let factors = load_ps(&panels[p][group].factors[block][1]);
            for t in 0..T {
                products[t][p] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sums[t][p]), factors, products[t][p]);
            }
        }
        products
    }
}

/// Four blocks of 64: four scales, then 8 bytes for each, whose low nibbles come first.
pub struct Nvfp4;

/// 256ths of E4M3 numbers as half-precision ones, signs left out and 0 for NaN: the bits of exponent and mantissa are the same,
/// of subnormal numbers too.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn e4m3_halves(bytes: __m128i) -> __m256i {
    let nan = _mm_set1_epi8(0x7f);
    let bits = _mm_andnot_si128(_mm_cmpeq_epi8(bytes, nan), _mm_and_si128(bytes, nan));
    _mm256_slli_epi16::<7>(_mm256_cvtepu8_epi16(bits))
}

/// The scales of a group, halved, in the order of `Multiply::narrow_halves`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn factors(w: &[u8; 144]) -> [__m256; 2] {
    let word = |at: usize| i32::from_le_bytes([w[at], w[at + 1], w[at + 2], w[at + 3]]);
    let scales = _mm_setr_epi32(word(0), word(36), word(72), word(108));
    let scales = _mm_shuffle_epi8(scales, _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15));
    let halves = e4m3_halves(scales);
    let (first, second) = (_mm256_castsi256_si128(halves), _mm256_extracti128_si256::<1>(halves));
    let up = _mm256_set1_ps(128.0);
    [_mm256_mul_ps(_mm256_cvtph_ps(first), up), _mm256_mul_ps(_mm256_cvtph_ps(second), up)]
}

/// 16 bytes of nibbles as 32 weights.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn four_bits<const N: usize>(w: &[u8; N], at: usize) -> __m256i {
    let twice = _mm256_permute4x64_epi64::<0b01_01_00_00>(_mm256_castsi128_si256(load_128(w, at)));
    _mm256_and_si256(_mm256_srlv_epi64(twice, _mm256_setr_epi64x(0, 4, 0, 4)), _mm256_set1_epi8(15))
}

impl<M: Multiply> Quant<M> for Nvfp4 {
    const FORMAT: Format = Format::Nvfp4;
    type Group = [u8; 4 * 36];
    type Panel = Floats<M>;

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn products(w: &Self::Group, x: &[i8; GROUP], x_sums: __m256i) -> Products {
        let mut quants = [_mm256_setzero_si256(); 8];
        for j in 0..8 {
            quants[j] = raised(four_bits(w, j / 2 * 36 + 4 + j % 2 * 16));
        }
        // SAFETY: the caller promises what `narrow_halves` asks for.
        let sums = unsafe { M::narrow_halves(quants, x) };
        let first = _mm256_madd_epi16(x_sums, _mm256_set1_epi32(OFFSET.into()));
        let second = _mm256_madd_epi16(x_sums, _mm256_set1_epi32(i32::from(OFFSET) << 16));
        let offsets =
            [_mm256_permute2x128_si256::<0x20>(first, second), _mm256_permute2x128_si256::<0x31>(first, second)];
        let (mut products, factors) = ([_mm256_setzero_ps(); 2], factors(w));
        for i in 0..2 {
            products[i] = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_sub_epi32(sums[i], offsets[i])), factors[i]);
        }
        let [a, b] = products;
        let sums = _mm256_add_ps(_mm256_permute2f128_ps::<0x20>(a, b), _mm256_permute2f128_ps::<0x31>(a, b));
        Products { sums, scale: _mm256_set1_ps(1.0), minima: [_mm256_setzero_ps(); 2] }
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn unpack(panel: &mut Self::Panel, rows: [&Self::Group; 8]) {
        let rows_factors = rows.each(|row| factors(row));
        for i in 0..2 {
            for (c, column) in transpose_ps(rows_factors.each(|factors| factors[i])).into_iter().enumerate() {
                store_ps(&mut panel.factors[4 * i + c % 4][c / 4], column);
            }
        }
        for j in 0..4 {
            for (c, column) in transpose(rows.each(|row| load_256(row, j * 36 + 4))).into_iter().enumerate() {
                let [low, high] = nibbles(column);
                let (quants, k) = (&mut panel.quants[2 * j + c / 4], c % 4 / 2 * 4 + c % 2);
                store_256(&mut quants[k], raised(low));
                store_256(&mut quants[k + 2], raised(high));
            }
        }
    }
}
