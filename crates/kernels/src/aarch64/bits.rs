//! Taking numbers out of packed bytes: what several formats share.

use std::arch::aarch64::*;

use super::format::Eight;
use super::registers::{load_i8, widen_halves};
use crate::array::Each;

/// The half-precision number at `at`, in every lane.
#[inline]
#[target_feature(enable = "neon")]
pub fn half_at<const N: usize>(w: &[u8; N], at: usize) -> float32x4_t {
    widen_halves([u16::from_le_bytes([w[at], w[at + 1]]); 4])
}

/// The four bytes at `at`, the first one lowest.
#[inline]
pub fn word_at<const N: usize>(w: &[u8; N], at: usize) -> u32 {
    u32::from_le_bytes([w[at], w[at + 1], w[at + 2], w[at + 3]])
}

/// Each byte as a float, times lane `LANE` of `d`.
#[inline]
#[target_feature(enable = "neon")]
pub fn times_bytes<const LANE: i32>(d: float32x4_t, bytes: uint8x8_t) -> Eight {
    let wide = vmovl_u8(bytes);
    let [low, high] = [vmovl_u16(vget_low_u16(wide)), vmovl_high_u16(wide)];
    [vmulq_laneq_f32::<LANE>(vcvtq_f32_u32(low), d), vmulq_laneq_f32::<LANE>(vcvtq_f32_u32(high), d)]
}

/// Shifts bytes to the left, to the right where `by` is negative.
#[inline]
#[target_feature(enable = "neon")]
pub fn shift(bytes: uint8x16_t, by: i8) -> uint8x16_t {
    vshlq_u8(bytes, vdupq_n_s8(by))
}

/// Low and high nibbles of 16 bytes.
#[inline]
#[target_feature(enable = "neon")]
pub fn nibbles(bytes: uint8x16_t) -> [uint8x16_t; 2] {
    [vandq_u8(bytes, vdupq_n_u8(15)), vshrq_n_u8::<4>(bytes)]
}

/// The lowest `BITS` bits of each byte of `low`, and above them those of `upper`.
#[inline]
#[target_feature(enable = "neon")]
pub fn join<const BITS: i32>(low: uint8x16_t, upper: uint8x16_t) -> uint8x16_t {
    vsliq_n_u8::<BITS>(low, upper)
}

/// The high nibble of each byte of `upper`, and below it that of `low`.
#[inline]
#[target_feature(enable = "neon")]
pub fn join_high(upper: uint8x16_t, low: uint8x16_t) -> uint8x16_t {
    vsriq_n_u8::<4>(upper, low)
}

/// What nibbles stand for: the weights of IQ4_NL and IQ4_XS, or of MXFP4.
#[inline]
#[target_feature(enable = "neon")]
pub fn look_up(weights: &[i8; 16], bytes: uint8x16_t) -> [int8x16_t; 2] {
    let table = load_i8(weights, 0);
    nibbles(bytes).each(|nibble| vqtbl1q_s8(table, nibble))
}

/// Bytes that are signed.
#[inline]
#[target_feature(enable = "neon")]
pub fn signed(quants: [uint8x16_t; 2]) -> [int8x16_t; 2] {
    quants.each(|quants| vreinterpretq_s8_u8(quants))
}
