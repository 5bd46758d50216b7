//! Loads and stores of 64 bytes, with their bounds checked: with AVX2's the only place that touches pointers.

use std::arch::x86_64::*;

/// 64 bytes from `at`.
#[inline]
#[target_feature(enable = "avx512f")]
pub fn load_512<const N: usize>(bytes: &[u8; N], at: usize) -> __m512i {
    let source: &[u8] = &bytes[at..at + 64];
    // SAFETY: `source` is 64 readable bytes, and the instruction takes any alignment.
    unsafe { _mm512_loadu_si512(source.as_ptr().cast()) }
}

/// 64 bytes.
#[inline]
#[target_feature(enable = "avx512f")]
pub fn store_512(bytes: &mut [u8; 64], register: __m512i) {
    // SAFETY: `bytes` is 64 writable bytes, and the instruction takes any alignment.
    unsafe { _mm512_storeu_si512(bytes.as_mut_ptr().cast(), register) }
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

/// 32 integers.
#[inline]
#[target_feature(enable = "avx512f")]
pub fn load_i16(values: &[i16; 32]) -> __m512i {
    // SAFETY: `values` is 64 readable bytes, and the instruction takes any alignment.
    unsafe { _mm512_loadu_si512(values.as_ptr().cast()) }
}

/// 16 integers.
#[inline]
#[target_feature(enable = "avx512f")]
pub fn store_i32(values: &mut [i32; 16], register: __m512i) {
    // SAFETY: `values` is 64 writable bytes, and the instruction takes any alignment.
    unsafe { _mm512_storeu_si512(values.as_mut_ptr().cast(), register) }
}

/// 64 activations from `at`.
#[inline]
#[target_feature(enable = "avx512f")]
pub fn load_quants<const N: usize>(quants: &[i8; N], at: usize) -> __m512i {
    let source: &[i8] = &quants[at..at + 64];
    // SAFETY: `source` is 64 readable bytes, and the instruction takes any alignment.
    unsafe { _mm512_loadu_si512(source.as_ptr().cast()) }
}
