//! Weights' bits as bytes: what the formats of `row_formats` have in common.

use std::arch::x86_64::*;

use super::registers::store_512;
use super::row_scales::join_quarters;
use crate::array::Each;
use crate::x86::avx2::registers::load_128;

/// One byte in the lower 32 lanes, another in the upper ones.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub fn bytes(low: u8, high: u8) -> __m512i {
    _mm512_inserti64x4::<1>(_mm512_castsi256_si512(_mm256_set1_epi8(low as i8)), _mm256_set1_epi8(high as i8))
}

/// 32 bytes in both halves, shifted right by `low` bits in the lower half and by `high` in the upper one. Bits cross into
/// the neighbouring byte: mask them.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub fn shifted(bytes: __m256i, low: i16, high: i16) -> __m512i {
    let counts = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(_mm256_set1_epi16(low)), _mm256_set1_epi16(high));
    _mm512_srlv_epi16(_mm512_broadcast_i64x4(bytes), counts)
}

/// `weights`, and `more` added where a byte has a bit of `bits`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub fn with_bits(weights: __m512i, bytes: __m512i, bits: __m512i, more: i8) -> __m512i {
    let set = _mm512_test_epi8_mask(bytes, bits);
    _mm512_mask_add_epi8(weights, set, weights, _mm512_set1_epi8(more))
}

/// Two blocks of 16 bytes, each in two quarters.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub fn twice<const N: usize>(w: &[u8; N], at: usize, stride: usize) -> __m512i {
    let first = _mm512_broadcast_i32x4(load_128(w, at));
    _mm512_mask_broadcast_i32x4(first, 0xff00, load_128(w, at + stride))
}

/// Two blocks of 16 bytes of nibbles, element `i` low and element `i + 16` high.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub fn nibbles<const N: usize>(w: &[u8; N], at: usize, stride: usize) -> __m512i {
    let counts = _mm512_broadcast_i64x4(_mm256_set_m128i(_mm_set1_epi16(4), _mm_setzero_si128()));
    _mm512_and_si512(_mm512_srlv_epi16(twice(w, at, stride), counts), _mm512_set1_epi8(15))
}

/// Four blocks of 16 bytes of nibbles, element `i` low and element `i + 16` high, as two pairs: the first block of a pair
/// low and the second one high.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub fn paired<const N: usize>(w: &[u8; N], at: usize, stride: usize) -> __m512i {
    let none_four = _mm512_broadcast_i64x4(_mm256_set_m128i(_mm_set1_epi16(4), _mm_setzero_si128()));
    let four_none = _mm512_broadcast_i64x4(_mm256_set_m128i(_mm_setzero_si128(), _mm_set1_epi16(4)));
    let low = _mm512_srlv_epi16(twice(w, at, stride * 2), none_four);
    let high = _mm512_sllv_epi16(twice(w, at + stride, stride * 2), four_none);
    const SELECT: i32 = 0b1100_1010; // the second where the first has bits, else the third
    _mm512_ternarylogic_epi32::<SELECT>(_mm512_set1_epi8(15), low, high)
}

/// The 32 fifth bits at `at` and those `stride` later, as a mask of two blocks.
#[inline]
pub fn fifth_bits<const N: usize>(w: &[u8; N], at: usize, stride: usize) -> u64 {
    // Of four single bytes the compiler would not make one load.
    let bits = |at: usize| u64::from(u32::from_le_bytes(*w[at..].first_chunk().expect("the bits are there")));
    bits(at) | bits(at + stride) << 32
}

/// Elements `i` of blocks of 16 bytes of nibbles.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub fn low_nibbles(bytes: __m512i) -> __m512i {
    _mm512_and_si512(bytes, _mm512_set1_epi8(15))
}

/// Elements `i + 16`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub fn high_nibbles(bytes: __m512i) -> __m512i {
    low_nibbles(_mm512_srli_epi16::<4>(bytes))
}

/// Eight blocks of 16 bytes of nibbles, element `i` low and element `i + 16` high, in quarters.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub fn nibble_quarters<const N: usize>(w: &[u8; N], at: usize, stride: usize) -> [[__m512i; 2]; 2] {
    [0, 1].each(|e| {
        let bytes = join_quarters([0, 2, 4, 6].each(|j| load_128(w, at + (j + e) * stride)));
        [low_nibbles(bytes), high_nibbles(bytes)]
    })
}

/// Nibbles, and 16 where a bit of `fifth` is.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub fn with_fifth(nibbles: __m512i, fifth: u64) -> __m512i {
    _mm512_or_si512(nibbles, _mm512_maskz_set1_epi8(fifth, 16))
}

/// [`super::row::Row::quarters`] with the fifth bits that the lower half of `words` has as masks.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub fn with_fifth_bits(mut quarters: [[__m512i; 2]; 2], words: __m512i) -> [[__m512i; 2]; 2] {
    let mut masks = [0; 64];
    store_512(&mut masks, words);
    let (masks, _) = masks.as_chunks();
    for e in 0..2 {
        for h in 0..2 {
            quarters[e][h] = with_fifth(quarters[e][h], u64::from_le_bytes(masks[2 * e + h]));
        }
    }
    quarters
}
