//! Q4_0, Q4_1, Q5_0, Q5_1 and MXFP4: unsigned weights of 4 or 5 bits with a scale, and a minimum or offset, per block of 32.
//!
//! Nibbles hold element `i` low and element `i + 16` high.

use std::arch::x86_64::*;

use candor_quant::Format;

use super::fold::{negated, transpose, transpose_ps};
use super::format::{GROUP, Products, Quant};
use super::k_quants::nibbles;
use super::multiply::Multiply;
use super::narrow::Narrow;
use super::registers::{load_128, load_256, store_256, store_ps};
use crate::array::Each;
use crate::weights::FP4_VALUES;

/// Half-precision numbers `stride` bytes apart.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn halves_at<const N: usize>(w: &[u8; N], first: usize, stride: usize) -> __m256 {
    let at = |j: usize| i16::from_le_bytes([w[first + j * stride], w[first + j * stride + 1]]);
    _mm256_cvtph_ps(_mm_setr_epi16(at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7)))
}

/// Stores the scales of eight rows from those of eight blocks of each.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn unpack_scales(scales: &mut [[f32; 8]; 8], rows: [__m256; 8]) {
    for (scales, column) in scales.iter_mut().zip(transpose_ps(rows)) {
        store_ps(scales, column);
    }
}

/// 16 bytes of nibbles as 32 weights.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn four_bits<const N: usize>(w: &[u8; N], at: usize) -> __m256i {
    let bytes = load_128(w, at);
    _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16::<4>(bytes), bytes), _mm256_set1_epi8(15))
}

/// Bit `i` of 32 as a 16 in byte `i`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn spread(bits: i32) -> __m256i {
    let byte = _mm256_setr_epi64x(0, 0x0101_0101_0101_0101, 0x0202_0202_0202_0202, 0x0303_0303_0303_0303);
    let bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(bits), byte);
    sixteens(bytes, _mm256_set1_epi64x(0x8040_2010_0804_0201u64 as i64))
}

/// 16 in each byte that has the bit of `mask`, 0 elsewhere.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn sixteens(bytes: __m256i, mask: __m256i) -> __m256i {
    let set = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, mask), mask);
    _mm256_and_si256(set, _mm256_set1_epi8(16))
}

/// The 32 fifth bits at `at`.
#[inline]
pub fn bits_at<const N: usize>(w: &[u8; N], at: usize) -> i32 {
    i32::from_le_bytes([w[at], w[at + 1], w[at + 2], w[at + 3]])
}

/// Unpacks the nibbles of eight rows of eight blocks.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn unpack_nibbles<M: Multiply, const N: usize, const D: usize, const O: i16>(
    panel: &mut Narrow<M, D, O>,
    rows: [&[u8; N]; 8],
    first: usize,
    stride: usize,
) {
    for block in (0..8).step_by(2) {
        let at = first + block * stride;
        let two = rows.each(|row| _mm256_set_m128i(load_128(row, at + stride), load_128(row, at)));
        for (k, column) in transpose(two).into_iter().enumerate() {
            let [low, high] = nibbles(column);
            let quants = &mut panel.quants[block + k / 4];
            store_256(&mut quants[k % 4], low);
            store_256(&mut quants[k % 4 + 4], high);
        }
    }
}

/// Adds the fifth bits of eight rows of eight blocks.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn unpack_fifth_bits<M: Multiply, const N: usize, const D: usize, const O: i16>(
    panel: &mut Narrow<M, D, O>,
    rows: [&[u8; N]; 8],
    first: usize,
    stride: usize,
) {
    for (block, quants) in panel.quants.iter_mut().enumerate() {
        // A loop, since a closure need not become part of this function: that cost a third.
        let mut bits = [0; 8];
        for r in 0..8 {
            bits[r] = bits_at(rows[r], first + block * stride);
        }
        let [a, b, c, d, e, f, g, h] = bits;
        let bits = _mm256_setr_epi32(a, b, c, d, e, f, g, h);
        for (k, quants) in quants.iter_mut().enumerate() {
            // Columns 4k to 4k + 3 have a nibble of bits: its byte to all four bytes of the lane, one bit for each.
            let byte = (k / 2) as i32;
            let lanes = _mm256_setr_epi32(0, 4, 8, 12, 0, 4, 8, 12);
            let order =
                _mm256_mullo_epi32(_mm256_add_epi32(lanes, _mm256_set1_epi32(byte)), _mm256_set1_epi32(0x0101_0101));
            let mask = if k % 2 == 0 { 0x0804_0201 } else { 0x8040_2010u32 as i32 };
            let fifth = sixteens(_mm256_shuffle_epi8(bits, order), _mm256_set1_epi32(mask));
            let low = load_256(quants, 0);
            store_256(quants, _mm256_or_si256(low, fifth));
        }
    }
}

/// `sums` less `offset` times the sums of 32 activations.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn reduced(sums: __m256i, x_sums: __m256i, offset: i16) -> __m256i {
    _mm256_sub_epi32(sums, _mm256_madd_epi16(x_sums, _mm256_set1_epi16(offset)))
}

/// 4 bits less 8: d, 16 bytes.
pub struct Q4_0;

impl<M: Multiply> Quant<M> for Q4_0 {
    const FORMAT: Format = Format::Q4_0;
    type Group = [u8; 8 * 18];
    type Panel = Narrow<M, 8, 8>;

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn products(w: &Self::Group, x: &[i8; GROUP], x_sums: __m256i) -> Products {
        let mut quants = [_mm256_setzero_si256(); 8];
        for j in 0..8 {
            quants[j] = four_bits(w, j * 18 + 2);
        }
        // SAFETY: the caller promises what `narrow` asks for.
        let sums = reduced(unsafe { M::narrow(quants, x) }, x_sums, 8);
        Products { sums: _mm256_cvtepi32_ps(sums), scale: halves_at(w, 0, 18), minima: [_mm256_setzero_ps(); 2] }
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn unpack(panel: &mut Self::Panel, rows: [&Self::Group; 8]) {
        unpack_scales(&mut panel.scales, rows.each(|row| halves_at(row, 0, 18)));
        unpack_nibbles(panel, rows, 2, 18);
    }
}

/// 4 bits and a minimum: d, m, 16 bytes.
pub struct Q4_1;

impl<M: Multiply> Quant<M> for Q4_1 {
    const FORMAT: Format = Format::Q4_1;
    type Group = [u8; 8 * 20];
    type Panel = Narrow<M, 8, 0>;

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn products(w: &Self::Group, x: &[i8; GROUP], _: __m256i) -> Products {
        let mut quants = [_mm256_setzero_si256(); 8];
        for j in 0..8 {
            quants[j] = four_bits(w, j * 20 + 4);
        }
        let minima = [negated(halves_at(w, 2, 20)); 2];
        // SAFETY: the caller promises what `narrow` asks for.
        let sums = unsafe { M::narrow(quants, x) };
        Products { sums: _mm256_cvtepi32_ps(sums), scale: halves_at(w, 0, 20), minima }
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn unpack(panel: &mut Self::Panel, rows: [&Self::Group; 8]) {
        unpack_scales(&mut panel.scales, rows.each(|row| halves_at(row, 0, 20)));
        unpack_scales(&mut panel.minima, rows.each(|row| halves_at(row, 2, 20)));
        unpack_nibbles(panel, rows, 4, 20);
    }
}

/// 5 bits less 16: d, 4 bytes of fifth bits, 16 bytes.
pub struct Q5_0;

impl<M: Multiply> Quant<M> for Q5_0 {
    const FORMAT: Format = Format::Q5_0;
    type Group = [u8; 8 * 22];
    type Panel = Narrow<M, 4, 16>;

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn products(w: &Self::Group, x: &[i8; GROUP], x_sums: __m256i) -> Products {
        let mut quants = [_mm256_setzero_si256(); 8];
        for j in 0..8 {
            quants[j] = _mm256_or_si256(four_bits(w, j * 22 + 6), spread(bits_at(w, j * 22 + 2)));
        }
        // SAFETY: the caller promises what `narrow` asks for.
        let sums = reduced(unsafe { M::narrow(quants, x) }, x_sums, 16);
        Products { sums: _mm256_cvtepi32_ps(sums), scale: halves_at(w, 0, 22), minima: [_mm256_setzero_ps(); 2] }
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn unpack(panel: &mut Self::Panel, rows: [&Self::Group; 8]) {
        unpack_scales(&mut panel.scales, rows.each(|row| halves_at(row, 0, 22)));
        unpack_nibbles(panel, rows, 6, 22);
        unpack_fifth_bits(panel, rows, 2, 22);
    }
}

/// 5 bits and a minimum: d, m, 4 bytes of fifth bits, 16 bytes.
pub struct Q5_1;

impl<M: Multiply> Quant<M> for Q5_1 {
    const FORMAT: Format = Format::Q5_1;
    type Group = [u8; 8 * 24];
    type Panel = Narrow<M, 4, 0>;

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn products(w: &Self::Group, x: &[i8; GROUP], _: __m256i) -> Products {
        let mut quants = [_mm256_setzero_si256(); 8];
        for j in 0..8 {
            quants[j] = _mm256_or_si256(four_bits(w, j * 24 + 8), spread(bits_at(w, j * 24 + 4)));
        }
        let minima = [negated(halves_at(w, 2, 24)); 2];
        // SAFETY: the caller promises what `narrow` asks for.
        let sums = unsafe { M::narrow(quants, x) };
        Products { sums: _mm256_cvtepi32_ps(sums), scale: halves_at(w, 0, 24), minima }
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn unpack(panel: &mut Self::Panel, rows: [&Self::Group; 8]) {
        unpack_scales(&mut panel.scales, rows.each(|row| halves_at(row, 0, 24)));
        unpack_scales(&mut panel.minima, rows.each(|row| halves_at(row, 2, 24)));
        unpack_nibbles(panel, rows, 8, 24);
        unpack_fifth_bits(panel, rows, 4, 24);
    }
}

/// 4-bit floats: an exponent, 16 bytes.
pub struct Mxfp4;

/// What MXFP4's and NVFP4's weights are raised by, to be unsigned.
pub const FP4_OFFSET: i8 = 16;
/// What their nibbles stand for, raised.
pub const FP4_RAISED: [u8; 16] = {
    let mut raised = [0; 16];
    let mut i = 0;
    while i < 16 {
        raised[i] = (FP4_VALUES[i] + FP4_OFFSET) as u8;
        i += 1;
    }
    raised
};

/// Halves of the powers of two that eight blocks begin with; the two smallest are subnormal.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn half_powers(w: &[u8; 8 * 17]) -> __m256 {
    let at = |j: usize| i32::from(w[17 * j]);
    let exponents = _mm256_setr_epi32(at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7));
    let one = _mm256_set1_epi32(1);
    let subnormal = _mm256_sllv_epi32(_mm256_set1_epi32(0x0020_0000), exponents);
    let normal = _mm256_slli_epi32::<23>(_mm256_sub_epi32(exponents, one));
    _mm256_castsi256_ps(_mm256_blendv_epi8(subnormal, normal, _mm256_cmpgt_epi32(exponents, one)))
}

/// The weights that nibbles stand for, raised.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn raised(nibbles: __m256i) -> __m256i {
    _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(load_128(&FP4_RAISED, 0)), nibbles)
}

impl<M: Multiply> Quant<M> for Mxfp4 {
    const FORMAT: Format = Format::Mxfp4;
    type Group = [u8; 8 * 17];
    type Panel = Narrow<M, 4, { FP4_OFFSET as i16 }>;

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn products(w: &Self::Group, x: &[i8; GROUP], x_sums: __m256i) -> Products {
        let mut quants = [_mm256_setzero_si256(); 8];
        for j in 0..8 {
            quants[j] = raised(four_bits(w, j * 17 + 1));
        }
        // SAFETY: the caller promises what `narrow` asks for.
        let sums = reduced(unsafe { M::narrow(quants, x) }, x_sums, FP4_OFFSET.into());
        Products { sums: _mm256_cvtepi32_ps(sums), scale: half_powers(w), minima: [_mm256_setzero_ps(); 2] }
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn unpack(panel: &mut Self::Panel, rows: [&Self::Group; 8]) {
        // A loop, since a closure does not become part of this function.
        let mut scales = [_mm256_setzero_ps(); 8];
        for r in 0..8 {
            scales[r] = half_powers(rows[r]);
        }
        unpack_scales(&mut panel.scales, scales);
        unpack_nibbles(panel, rows, 1, 17);
        for columns in panel.quants.as_flattened_mut() {
            let weights = raised(load_256(columns, 0));
            store_256(columns, weights);
        }
    }
}
