//! Loads and stores between byte arrays and registers, with their bounds checked: the only place that touches pointers.
//!
//! Offsets are constants or small loop counters, so that the checks vanish once the loops are unrolled.

use std::arch::asm;
use std::arch::x86_64::*;

/// 16 bytes from `at`.
#[inline]
#[target_feature(enable = "avx2")]
pub fn load_128<const N: usize>(bytes: &[u8; N], at: usize) -> __m128i {
    let source: &[u8] = &bytes[at..at + 16];
    // SAFETY: `source` is 16 readable bytes, and the instruction takes any alignment.
    unsafe { _mm_loadu_si128(source.as_ptr().cast()) }
}

/// 8 bytes from `at`, then zeros.
#[inline]
#[target_feature(enable = "avx2")]
pub fn load_64<const N: usize>(bytes: &[u8; N], at: usize) -> __m128i {
    let source: &[u8] = &bytes[at..at + 8];
    // SAFETY: `source` is 8 readable bytes, and the instruction takes any alignment.
    unsafe { _mm_loadl_epi64(source.as_ptr().cast()) }
}

/// 32 bytes from `at`.
#[inline]
#[target_feature(enable = "avx2")]
pub fn load_256<const N: usize>(bytes: &[u8; N], at: usize) -> __m256i {
    let source: &[u8] = &bytes[at..at + 32];
    // SAFETY: `source` is 32 readable bytes, and the instruction takes any alignment.
    unsafe { _mm256_loadu_si256(source.as_ptr().cast()) }
}

/// 8 floats.
#[inline]
#[target_feature(enable = "avx2")]
pub fn load_ps(values: &[f32; 8]) -> __m256 {
    // SAFETY: `values` is 32 readable bytes, and the instruction takes any alignment.
    unsafe { _mm256_loadu_ps(values.as_ptr()) }
}

/// 8 floats.
#[inline]
#[target_feature(enable = "avx2")]
pub fn store_ps(values: &mut [f32; 8], register: __m256) {
    // SAFETY: `values` is 32 writable bytes, and the instruction takes any alignment.
    unsafe { _mm256_storeu_ps(values.as_mut_ptr(), register) }
}

/// 8 halves.
#[inline]
#[target_feature(enable = "avx2")]
pub fn load_halves(values: &[u16; 8]) -> __m128i {
    // SAFETY: `values` is 16 readable bytes, and the instruction takes any alignment.
    unsafe { _mm_loadu_si128(values.as_ptr().cast()) }
}

/// 8 halves.
#[inline]
#[target_feature(enable = "avx2")]
pub fn store_halves(values: &mut [u16; 8], register: __m128i) {
    // SAFETY: `values` is 16 writable bytes, and the instruction takes any alignment.
    unsafe { _mm_storeu_si128(values.as_mut_ptr().cast(), register) }
}

/// 32 bytes.
#[inline]
#[target_feature(enable = "avx2")]
pub fn store_256(bytes: &mut [u8; 32], register: __m256i) {
    // SAFETY: `bytes` is 32 writable bytes, and the instruction takes any alignment.
    unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), register) }
}

/// 32 activations from `at`.
#[inline]
#[target_feature(enable = "avx2")]
pub fn load_quants<const N: usize>(quants: &[i8; N], at: usize) -> __m256i {
    let source: &[i8] = &quants[at..at + 32];
    // SAFETY: `source` is 32 readable bytes, and the instruction takes any alignment.
    unsafe { _mm256_loadu_si256(source.as_ptr().cast()) }
}

/// 16 activations from `at`.
#[inline]
#[target_feature(enable = "avx2")]
pub fn load_16_quants<const N: usize>(quants: &[i8; N], at: usize) -> __m128i {
    let source: &[i8] = &quants[at..at + 16];
    // SAFETY: `source` is 16 readable bytes, and the instruction takes any alignment.
    unsafe { _mm_loadu_si128(source.as_ptr().cast()) }
}

/// 16 integers.
#[inline]
#[target_feature(enable = "avx2")]
pub fn load_i16(values: &[i16; 16]) -> __m256i {
    // SAFETY: `values` is 32 readable bytes, and the instruction takes any alignment.
    unsafe { _mm256_loadu_si256(values.as_ptr().cast()) }
}

/// 16 integers.
#[inline]
#[target_feature(enable = "avx2")]
pub fn store_i16(values: &mut [i16; 16], register: __m256i) {
    // SAFETY: `values` is 32 writable bytes, and the instruction takes any alignment.
    unsafe { _mm256_storeu_si256(values.as_mut_ptr().cast(), register) }
}

/// The value itself, in memory: from there a broadcast takes no more than a load, from a register it would take a shuffle.
#[inline]
pub fn stored<T>(value: &mut T) -> &T {
    // SAFETY: no instruction is emitted.
    unsafe { asm!("/* {0} */", in(reg) std::ptr::from_mut(value), options(nostack, preserves_flags)) };
    value
}
