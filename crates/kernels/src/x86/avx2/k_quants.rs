//! Q4_K and Q5_K: blocks of 256 with 6-bit scales and minima per 32.

use std::arch::x86_64::*;

use candor_quant::Format;

use super::fold::{negated, transpose};
use super::format::{GROUP, Products, Quant};
use super::multiply::Multiply;
use super::narrow::Narrow;
use super::registers::{load_128, load_256, store_256, store_ps};
use crate::array::Each;
use crate::unroll::unroll;

/// Scales and minima of eight blocks, lane = block, from a block of 256 that begins with d, dmin and 12 packed bytes.
///
/// The 12 bytes as three words: scales 0-3 with the upper bits of scales 4-7, minima likewise, the lower nibbles of
/// scales 4-7 and of minima 4-7.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn scales_minima<const N: usize>(w: &[u8; N]) -> (__m256, __m256) {
    const LOW6: i32 = 0x3f3f_3f3f;
    const LOW4: i32 = 0x0f0f_0f0f;
    const UPPER: i32 = 0x3030_3030;
    let head = load_128(w, 0); // d and dmin, then the three words
    // Bytes: scales 0-3, scales 4-7, minima 0-3, minima 4-7.
    let low = _mm_srlv_epi32(_mm_shuffle_epi32::<0b11_10_11_01>(head), _mm_setr_epi32(0, 0, 0, 4));
    let high = _mm_srli_epi32::<2>(_mm_shuffle_epi32::<0b10_10_01_01>(head));
    let packed = _mm_or_si128(
        _mm_and_si128(low, _mm_setr_epi32(LOW6, LOW4, LOW6, LOW4)),
        _mm_and_si128(high, _mm_setr_epi32(0, UPPER, 0, UPPER)),
    );
    let d = _mm_cvtph_ps(head);
    let scales = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(packed));
    let minima = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_unpackhi_epi64(packed, packed)));
    (_mm256_mul_ps(_mm256_broadcastss_ps(d), scales), _mm256_mul_ps(_mm256_broadcastss_ps(_mm_movehdup_ps(d)), minima))
}

/// Sets the scales and minima of eight rows from their packed words, a word of all rows at a time: lane = row.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn unpack_scales<M: Multiply, const N: usize, const D: usize>(panel: &mut Narrow<M, D, 0>, rows: [&[u8; N]; 8]) {
    let [halves, scales, minima, lower] = words(rows.each(|row| load_128(row, 0)));
    let six = _mm256_set1_epi32(0x3f3f_3f3f);
    let lower_four = |word| _mm256_and_si256(word, _mm256_set1_epi32(0x0f0f_0f0f));
    let upper_two = |word| _mm256_and_si256(_mm256_srli_epi32::<2>(word), _mm256_set1_epi32(0x3030_3030));
    let scales = [_mm256_and_si256(scales, six), _mm256_or_si256(lower_four(lower), upper_two(scales))];
    let lower = _mm256_srli_epi32::<4>(lower);
    let minima = [_mm256_and_si256(minima, six), _mm256_or_si256(lower_four(lower), upper_two(minima))];
    // d of all rows, then dmin of all rows.
    let order = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
    let halves = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_shuffle_epi8(halves, order));
    let d = _mm256_cvtph_ps(_mm256_castsi256_si128(halves));
    let dmin = negated(_mm256_cvtph_ps(_mm256_extracti128_si256::<1>(halves)));
    unroll!(J, {
        let byte = |words: [__m256i; 2]| {
            let shifted = _mm256_srl_epi32(words[J / 4], _mm_cvtsi32_si128(J as i32 % 4 * 8));
            _mm256_cvtepi32_ps(_mm256_and_si256(shifted, _mm256_set1_epi32(255)))
        };
        store_ps(&mut panel.scales[J], _mm256_mul_ps(d, byte(scales)));
        store_ps(&mut panel.minima[J], _mm256_mul_ps(dmin, byte(minima)));
    });
}

/// The four words of each row become a register each: lane = row.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn words(rows: [__m128i; 8]) -> [__m256i; 4] {
    let [a, b, c, d, e, f, g, h] = rows;
    let (ae, bf, cg, dh) =
        (_mm256_set_m128i(e, a), _mm256_set_m128i(f, b), _mm256_set_m128i(g, c), _mm256_set_m128i(h, d));
    let (ab0, ab1) = (_mm256_unpacklo_epi32(ae, bf), _mm256_unpackhi_epi32(ae, bf));
    let (cd0, cd1) = (_mm256_unpacklo_epi32(cg, dh), _mm256_unpackhi_epi32(cg, dh));
    [
        _mm256_unpacklo_epi64(ab0, cd0),
        _mm256_unpackhi_epi64(ab0, cd0),
        _mm256_unpacklo_epi64(ab1, cd1),
        _mm256_unpackhi_epi64(ab1, cd1),
    ]
}

/// 32 low nibbles and 32 high nibbles.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn nibbles(bytes: __m256i) -> [__m256i; 2] {
    let low = _mm256_set1_epi8(15);
    [_mm256_and_si256(bytes, low), _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), low)]
}

pub struct Q4K;

impl<M: Multiply> Quant<M> for Q4K {
    const FORMAT: Format = Format::Q4K;
    type Group = [u8; 144];
    type Panel = Narrow<M, 8, 0>;

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn products(w: &Self::Group, x: &[i8; GROUP], _: __m256i) -> Products {
        let (scale, minima) = scales_minima(w);
        let mut quants = [_mm256_setzero_si256(); 8];
        for j in 0..4 {
            [quants[2 * j], quants[2 * j + 1]] = nibbles(load_256(w, 16 + j * 32));
        }
        // SAFETY: the caller promises what `narrow` asks for.
        let sums = unsafe { M::narrow(quants, x) };
        Products { sums: _mm256_cvtepi32_ps(sums), scale, minima: [minima; 2] }
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn unpack(panel: &mut Self::Panel, rows: [&Self::Group; 8]) {
        unpack_scales(panel, rows);
        for j in 0..4 {
            let columns = transpose(rows.each(|row| load_256(row, 16 + j * 32)));
            for k in 0..8 {
                let [low, high] = nibbles(columns[k]);
                store_256(&mut panel.quants[2 * j][k], low);
                store_256(&mut panel.quants[2 * j + 1][k], high);
            }
        }
    }
}

/// The bits of a byte of `high` that belong to block `j`, as 16s.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn fifth_bits(high: __m256i, j: usize) -> __m256i {
    let bit = _mm256_and_si256(high, _mm256_set1_epi8(1i8 << j));
    // No bit leaves its byte: it is the only one there.
    match j {
        0..4 => _mm256_sll_epi16(bit, _mm_cvtsi32_si128(4 - j as i32)),
        _ => _mm256_srl_epi16(bit, _mm_cvtsi32_si128(j as i32 - 4)),
    }
}

pub struct Q5K;

impl<M: Multiply> Quant<M> for Q5K {
    const FORMAT: Format = Format::Q5K;
    type Group = [u8; 176];
    type Panel = Narrow<M, 4, 0>;

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn products(w: &Self::Group, x: &[i8; GROUP], _: __m256i) -> Products {
        let (scale, minima) = scales_minima(w);
        let high = load_256(w, 16);
        let mut quants = [_mm256_setzero_si256(); 8];
        for j in 0..4 {
            let [a, b] = nibbles(load_256(w, 48 + j * 32));
            quants[2 * j] = _mm256_or_si256(a, fifth_bits(high, 2 * j));
            quants[2 * j + 1] = _mm256_or_si256(b, fifth_bits(high, 2 * j + 1));
        }
        // SAFETY: the caller promises what `narrow` asks for.
        let sums = unsafe { M::narrow(quants, x) };
        Products { sums: _mm256_cvtepi32_ps(sums), scale, minima: [minima; 2] }
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn unpack(panel: &mut Self::Panel, rows: [&Self::Group; 8]) {
        unpack_scales(panel, rows);
        let high = transpose(rows.each(|row| load_256(row, 16)));
        for j in 0..4 {
            let columns = transpose(rows.each(|row| load_256(row, 48 + j * 32)));
            for k in 0..8 {
                let [a, b] = nibbles(columns[k]);
                store_256(&mut panel.quants[2 * j][k], _mm256_or_si256(a, fifth_bits(high[k], 2 * j)));
                store_256(&mut panel.quants[2 * j + 1][k], _mm256_or_si256(b, fifth_bits(high[k], 2 * j + 1)));
            }
        }
    }
}
