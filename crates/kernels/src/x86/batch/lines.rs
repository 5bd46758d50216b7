//! Loads and stores between registers and lines, with their bounds in the types: no pointers elsewhere but in `tiles`.

use std::arch::x86_64::*;

use crate::Line;

/// A whole line.
#[inline]
#[target_feature(enable = "avx512f")]
pub fn load(line: &Line) -> __m512i {
    // SAFETY: a `Line` is 64 readable bytes on a boundary of 64.
    unsafe { _mm512_load_si512(std::ptr::from_ref(line).cast()) }
}

/// A whole line.
#[inline]
#[target_feature(enable = "avx512f")]
pub fn store(line: &mut Line, register: __m512i) {
    // SAFETY: a `Line` is 64 writable bytes on a boundary of 64.
    unsafe { _mm512_store_si512(std::ptr::from_mut(line).cast(), register) }
}

/// 16 floats.
#[inline]
#[target_feature(enable = "avx512f")]
pub fn load_ps(values: &[f32; 16]) -> __m512 {
    // SAFETY: `values` is 64 readable bytes, and the instruction takes any alignment.
    unsafe { _mm512_loadu_ps(values.as_ptr()) }
}

/// 16 floats.
#[inline]
#[target_feature(enable = "avx512f")]
pub fn store_ps(values: &mut [f32; 16], register: __m512) {
    // SAFETY: `values` is 64 writable bytes, and the instruction takes any alignment.
    unsafe { _mm512_storeu_ps(values.as_mut_ptr(), register) }
}

/// 64 bytes.
#[inline]
#[target_feature(enable = "avx512f")]
pub fn load_bytes(bytes: &[u8; 64]) -> __m512i {
    // SAFETY: `bytes` is 64 readable bytes, and the instruction takes any alignment.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

/// Rounds to bfloat16, ties to even, numbers below the normal range to zero: `low` to words 0..16, `high` to 16..32.
#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
pub fn round(low: __m512, high: __m512) -> __m512i {
    let words: __m512bh = _mm512_cvtne2ps_pbh(high, low);
    // SAFETY: both are 64 bytes of plain numbers.
    unsafe { std::mem::transmute::<__m512bh, __m512i>(words) }
}

/// [`round`], and what that left off, rounded in turn. The difference is exact.
#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
pub fn round_twice(low: __m512, high: __m512) -> [__m512i; 2] {
    let words = round(low, high);
    let widen = |half: __m256i| _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(half)));
    let low = _mm512_sub_ps(low, widen(_mm512_castsi512_si256(words)));
    let high = _mm512_sub_ps(high, widen(_mm512_extracti64x4_epi64::<1>(words)));
    [words, round(low, high)]
}

/// The half-precision number at a byte offset, in every lane. (Loaded into one lane, as the compiler does it, the others
/// would make each block wait for the one before.)
#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
pub fn half_at<const N: usize>(block: &[u8; N], at: usize) -> __m512 {
    _mm512_cvtph_ps(_mm256_set1_epi16(i16::from_le_bytes([block[at], block[at + 1]])))
}
