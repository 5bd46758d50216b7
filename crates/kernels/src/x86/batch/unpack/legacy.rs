//! Blocks of 32 with one scale. Of 4 and 5 bits there are 16 or 32 values in a block: they are looked up.

use std::arch::x86_64::*;

use candor_quant::Format;

use super::{Step, Unpack};
use crate::array::Each;
use crate::weights::{FP4_VALUES, IQ4_VALUES, half_power};
use crate::x86::avx2::registers::load_128;
use crate::x86::batch::lines::{half_at, round, store};

pub struct Q4_0;
pub struct Q4_1;
pub struct Q5_0;
pub struct Q5_1;
pub struct Q8_0;
pub struct Iq4Nl;
pub struct Mxfp4;

/// 0, 1, 2 ...
#[inline]
#[target_feature(enable = "avx512f")]
pub fn counting() -> __m512 {
    _mm512_setr_ps(0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0)
}

/// 16, 17, 18 ...
#[inline]
#[target_feature(enable = "avx512f")]
pub fn counting_on() -> __m512 {
    _mm512_add_ps(counting(), _mm512_set1_ps(16.0))
}

/// 16 values that do not count up: those of IQ4 or of 4-bit floats.
#[inline]
#[target_feature(enable = "avx512f")]
pub fn uneven(values: [i8; 16]) -> __m512 {
    _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(load_128(&values.each(|value| value as u8), 0)))
}

/// A table of 16 values for indices of which bit 4 does not count; those above it never do.
#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
pub fn table(values: __m512) -> __m512i {
    round(values, values)
}

/// Byte j as indices j (low) and j + 16 (high), with its other bits on top.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub fn indices<const N: usize>(block: &[u8; N], at: usize) -> __m512i {
    let bytes = _mm256_cvtepu8_epi16(load_128(block, at));
    _mm512_inserti64x4::<1>(_mm512_castsi256_si512(bytes), _mm256_srli_epi16::<4>(bytes))
}

/// 16 signed bytes times a scale.
#[inline]
#[target_feature(enable = "avx512f")]
pub fn scaled(quants: __m128i, scale: __m512) -> __m512 {
    _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(quants)), scale)
}

/// [`indices`] of 5 bits; the fifth of index j is bit j of a word.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn indices_of_five<const N: usize>(block: &[u8; N], word: usize, at: usize) -> __m512i {
    let fifth = u32::from_le_bytes([block[word], block[word + 1], block[word + 2], block[word + 3]]);
    let low = _mm512_and_si512(indices(block, at), _mm512_set1_epi16(15));
    _mm512_or_si512(low, _mm512_maskz_set1_epi16(fifth, 16))
}

macro_rules! unpack {
    ($($name:ident [$bytes:literal] $block:ident => $columns:expr;)*) => {
        $(impl Unpack for $name {
            const FORMAT: Format = Format::$name;

            #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,f16c")]
            unsafe fn unpack(columns: &[u8], panel: &mut [Step], r: usize) {
                for ($block, step) in columns.as_chunks::<$bytes>().0.iter().zip(panel) {
                    store(&mut step[r], $columns);
                }
            }
        })*
    };
}

unpack! {
    Q4_0[18] block => {
        let quants = _mm512_sub_ps(counting(), _mm512_set1_ps(8.0));
        let values = _mm512_mul_ps(quants, half_at(block, 0));
        _mm512_permutexvar_epi16(indices(block, 2), table(values))
    };
    Q4_1[20] block => {
        let (scale, minimum) = (half_at(block, 0), half_at(block, 2));
        _mm512_permutexvar_epi16(indices(block, 4), table(_mm512_fmadd_ps(counting(), scale, minimum)))
    };
    Q5_0[22] block => {
        let scale = half_at(block, 0);
        let negative = _mm512_mul_ps(_mm512_sub_ps(counting(), _mm512_set1_ps(16.0)), scale);
        let values = round(negative, _mm512_mul_ps(counting(), scale));
        _mm512_permutexvar_epi16(indices_of_five(block, 2, 6), values)
    };
    Q5_1[24] block => {
        let (scale, minimum) = (half_at(block, 0), half_at(block, 2));
        let low = _mm512_fmadd_ps(counting(), scale, minimum);
        let values = round(low, _mm512_fmadd_ps(counting_on(), scale, minimum));
        _mm512_permutexvar_epi16(indices_of_five(block, 4, 8), values)
    };
    Iq4Nl[18] block => {
        let values = _mm512_mul_ps(uneven(IQ4_VALUES), half_at(block, 0));
        _mm512_permutexvar_epi16(indices(block, 2), table(values))
    };
    Mxfp4[17] block => {
        let values = _mm512_mul_ps(uneven(FP4_VALUES), _mm512_set1_ps(half_power(block[0])));
        _mm512_permutexvar_epi16(indices(block, 1), table(values))
    };
    Q8_0[34] block => {
        let scale = half_at(block, 0);
        round(scaled(load_128(block, 2), scale), scaled(load_128(block, 18), scale))
    };
}
