//! Loads and stores between arrays and registers, with their bounds checked: the only place that touches pointers.
//!
//! Offsets are constants or small loop counters, so that the checks vanish once the loops are unrolled.

use std::arch::aarch64::*;

/// 16 bytes from `at`.
#[inline]
#[target_feature(enable = "neon")]
pub fn load_u8<const N: usize>(bytes: &[u8; N], at: usize) -> uint8x16_t {
    let source: &[u8] = &bytes[at..at + 16];
    // SAFETY: `source` is 16 readable bytes, and the instruction takes any alignment.
    unsafe { vld1q_u8(source.as_ptr()) }
}

/// 16 signed bytes from `at`.
#[inline]
#[target_feature(enable = "neon")]
pub fn load_i8<const N: usize>(bytes: &[i8; N], at: usize) -> int8x16_t {
    let source: &[i8] = &bytes[at..at + 16];
    // SAFETY: `source` is 16 readable bytes, and the instruction takes any alignment.
    unsafe { vld1q_s8(source.as_ptr()) }
}

/// 16 signed bytes.
#[inline]
#[target_feature(enable = "neon")]
pub fn store_i8(bytes: &mut [i8; 16], register: int8x16_t) {
    // SAFETY: `bytes` is 16 writable bytes, and the instruction takes any alignment.
    unsafe { vst1q_s8(bytes.as_mut_ptr(), register) }
}

/// 8 integers from `at`.
#[inline]
#[target_feature(enable = "neon")]
pub fn load_i16<const N: usize>(values: &[i16; N], at: usize) -> int16x8_t {
    let source: &[i16] = &values[at..at + 8];
    // SAFETY: `source` is 8 readable integers, and the instruction takes any alignment.
    unsafe { vld1q_s16(source.as_ptr()) }
}

/// 4 integers.
#[inline]
#[target_feature(enable = "neon")]
pub fn load_i32(values: &[i32; 4]) -> int32x4_t {
    // SAFETY: `values` is 16 readable bytes, and the instruction takes any alignment.
    unsafe { vld1q_s32(values.as_ptr()) }
}

/// 4 integers.
#[inline]
#[target_feature(enable = "neon")]
pub fn store_i32(values: &mut [i32; 4], register: int32x4_t) {
    // SAFETY: `values` is 16 writable bytes, and the instruction takes any alignment.
    unsafe { vst1q_s32(values.as_mut_ptr(), register) }
}

/// 4 floats from `at`.
#[inline]
#[target_feature(enable = "neon")]
pub fn load_f32<const N: usize>(values: &[f32; N], at: usize) -> float32x4_t {
    let source: &[f32] = &values[at..at + 4];
    // SAFETY: `source` is 4 readable floats, and the instruction takes any alignment.
    unsafe { vld1q_f32(source.as_ptr()) }
}

/// 4 floats from `at`.
#[inline]
#[target_feature(enable = "neon")]
pub fn store_f32<const N: usize>(values: &mut [f32; N], at: usize, register: float32x4_t) {
    let target: &mut [f32] = &mut values[at..at + 4];
    // SAFETY: `target` is 4 writable floats, and the instruction takes any alignment.
    unsafe { vst1q_f32(target.as_mut_ptr(), register) }
}

/// 4 halves, exactly.
#[inline]
#[target_feature(enable = "neon")]
pub fn widen_halves(halves: [u16; 4]) -> float32x4_t {
    // SAFETY: `halves` is 8 readable bytes, and the instruction takes any alignment.
    let bits = unsafe { vld1_u16(halves.as_ptr()) };
    vcvt_f32_f16(vreinterpret_f16_u16(bits))
}

/// Rounds to 4 halves, ties to even.
#[inline]
#[target_feature(enable = "neon")]
pub fn narrow_to_halves(values: float32x4_t) -> [u16; 4] {
    let mut halves = [0; 4];
    // SAFETY: `halves` is 8 writable bytes, and the instruction takes any alignment.
    unsafe { vst1_u16(halves.as_mut_ptr(), vreinterpret_u16_f16(vcvt_f16_f32(values))) };
    halves
}
