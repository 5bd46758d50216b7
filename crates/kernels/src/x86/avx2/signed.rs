//! Q8_0, IQ4_NL and IQ4_XS: signed weights of 8 bits, stored or looked up, with one scale per block of 32.

use std::arch::x86_64::*;

use candor_quant::Format;

use super::fold::{transpose, transpose_ps};
use super::format::{GROUP, Products, Quant};
use super::legacy::halves_at;
use super::multiply::{Multiply, Signed};
use super::registers::{load_128, load_256, store_ps};
use crate::array::Each;
use crate::weights::IQ4_VALUES;

/// Sets the scales of eight rows from those of eight blocks of each.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn unpack_scales<P: Signed>(panel: &mut P, rows: [__m256; 8]) {
    for (scales, column) in panel.scales().iter_mut().zip(transpose_ps(rows)) {
        store_ps(scales, column);
    }
}

/// What 16 bytes of nibbles stand for: the low ones first.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn look_up(bytes: __m128i) -> __m256i {
    let [low, high] = look_up_both(_mm256_castsi128_si256(bytes));
    _mm256_inserti128_si256::<1>(low, _mm256_castsi256_si128(high))
}

/// What the low and the high nibbles stand for.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn look_up_both(bytes: __m256i) -> [__m256i; 2] {
    let table = _mm256_broadcastsi128_si256(load_128(&IQ4_VALUES.each(|value| value as u8), 0));
    let nibble = _mm256_set1_epi8(15);
    [
        _mm256_shuffle_epi8(table, _mm256_and_si256(bytes, nibble)),
        _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), nibble)),
    ]
}

/// Unpacks 16 bytes of nibbles of each of eight blocks, `from(block)` of each row.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn unpack_nibbles<P: Signed, const N: usize>(panel: &mut P, rows: [&[u8; N]; 8], first: usize, stride: usize) {
    for block in (0..8).step_by(2) {
        let at = first + block * stride;
        let two = rows.each(|row| _mm256_set_m128i(load_128(row, at + stride), load_128(row, at)));
        for (k, column) in transpose(two).into_iter().enumerate() {
            let [low, high] = look_up_both(column);
            // SAFETY: the caller promises what `set` asks for.
            unsafe {
                panel.set(block + k / 4, k % 4, low);
                panel.set(block + k / 4, k % 4 + 4, high);
            }
        }
    }
}

/// 8 bits: d, 32 bytes.
pub struct Q8_0;

impl<M: Multiply> Quant<M> for Q8_0 {
    const FORMAT: Format = Format::Q8_0;
    const FEW_INPUTS: usize = M::FEW_SIGNED;
    type Group = [u8; 8 * 34];
    type Panel = M::Signed;

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn products(w: &Self::Group, x: &[i8; GROUP], x_sums: __m256i) -> Products {
        let mut weights = [_mm256_setzero_si256(); 8];
        for j in 0..8 {
            weights[j] = load_256(w, j * 34 + 2);
        }
        // SAFETY: the caller promises what `signed` asks for.
        let sums = unsafe { M::signed(weights, x, x_sums) };
        Products { sums: _mm256_cvtepi32_ps(sums), scale: halves_at(w, 0, 34), minima: [_mm256_setzero_ps(); 2] }
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn unpack(panel: &mut Self::Panel, rows: [&Self::Group; 8]) {
        unpack_scales(panel, rows.each(|row| halves_at(row, 0, 34)));
        for block in 0..8 {
            let columns = transpose(rows.each(|row| load_256(row, block * 34 + 2)));
            for (k, column) in columns.into_iter().enumerate() {
                // SAFETY: the caller promises what `set` asks for.
                unsafe { panel.set(block, k, column) };
            }
        }
    }
}

/// 4 bits into a table: d, 16 bytes.
pub struct Iq4Nl;

impl<M: Multiply> Quant<M> for Iq4Nl {
    const FORMAT: Format = Format::Iq4Nl;
    type Group = [u8; 8 * 18];
    type Panel = M::Signed;

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn products(w: &Self::Group, x: &[i8; GROUP], x_sums: __m256i) -> Products {
        let mut weights = [_mm256_setzero_si256(); 8];
        for j in 0..8 {
            weights[j] = look_up(load_128(w, j * 18 + 2));
        }
        // SAFETY: the caller promises what `signed` asks for.
        let sums = unsafe { M::signed(weights, x, x_sums) };
        Products { sums: _mm256_cvtepi32_ps(sums), scale: halves_at(w, 0, 18), minima: [_mm256_setzero_ps(); 2] }
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn unpack(panel: &mut Self::Panel, rows: [&Self::Group; 8]) {
        unpack_scales(panel, rows.each(|row| halves_at(row, 0, 18)));
        unpack_nibbles(panel, rows, 2, 18);
    }
}

/// 4 bits into a table; 6-bit factors less 32. d, 2 bytes of upper and 4 of lower bits of factors, 128 of quants.
pub struct Iq4Xs;

/// Scales of eight blocks.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn scales_xs(w: &[u8; 136]) -> __m256 {
    let d = _mm256_broadcastss_ps(_mm_cvtph_ps(load_128(w, 0)));
    let low = _mm256_set1_epi32(i32::from_le_bytes([w[4], w[5], w[6], w[7]]));
    let low = _mm256_srlv_epi32(low, _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
    let low = _mm256_and_si256(low, _mm256_set1_epi32(15));
    let high = _mm256_set1_epi32(i32::from(u16::from_le_bytes([w[2], w[3]])) << 4);
    let high = _mm256_srlv_epi32(high, _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14));
    let high = _mm256_and_si256(high, _mm256_set1_epi32(0x30));
    let factors = _mm256_sub_epi32(_mm256_or_si256(low, high), _mm256_set1_epi32(32));
    _mm256_mul_ps(d, _mm256_cvtepi32_ps(factors))
}

impl<M: Multiply> Quant<M> for Iq4Xs {
    const FORMAT: Format = Format::Iq4Xs;
    type Group = [u8; 136];
    type Panel = M::Signed;

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn products(w: &Self::Group, x: &[i8; GROUP], x_sums: __m256i) -> Products {
        let mut weights = [_mm256_setzero_si256(); 8];
        for j in 0..8 {
            weights[j] = look_up(load_128(w, 8 + j * 16));
        }
        // SAFETY: the caller promises what `signed` asks for.
        let sums = unsafe { M::signed(weights, x, x_sums) };
        Products { sums: _mm256_cvtepi32_ps(sums), scale: scales_xs(w), minima: [_mm256_setzero_ps(); 2] }
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn unpack(panel: &mut Self::Panel, rows: [&Self::Group; 8]) {
        unpack_scales(panel, rows.each(|row| scales_xs(row)));
        unpack_nibbles(panel, rows, 8, 16);
    }
}
