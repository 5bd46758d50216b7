//! Taking numbers out of packed bytes: what several formats share.

use std::arch::wasm32::*;

use candor_quant::half::f16_to_f32;

use super::format::Eight;
use super::registers::load;

/// The half-precision number at `at`.
#[inline(always)]
pub fn half_at<const N: usize>(w: &[u8; N], at: usize) -> f32 {
    f16_to_f32(u16::from_le_bytes([w[at], w[at + 1]]))
}

/// The four bytes at `at`, the first one lowest.
#[inline(always)]
pub fn word_at<const N: usize>(w: &[u8; N], at: usize) -> u32 {
    u32::from_le_bytes([w[at], w[at + 1], w[at + 2], w[at + 3]])
}

/// The lower eight bytes, without sign, as floats times `d`.
#[inline(always)]
pub fn times_bytes(d: f32, bytes: v128) -> Eight {
    let wide = u16x8_extend_low_u8x16(bytes);
    [u32x4_extend_low_u16x8(wide), u32x4_extend_high_u16x8(wide)]
        .map(|four| f32x4_mul(f32x4_convert_i32x4(four), f32x4_splat(d)))
}

/// The bits of `mask`, of each byte shifted to the right.
///
/// What comes down from the next byte must not be in the mask.
#[inline(always)]
pub fn bits(bytes: v128, by: usize, mask: u8) -> v128 {
    v128_and(u16x8_shr(bytes, by as u32), u8x16_splat(mask))
}

/// The bits of `mask`, of each byte shifted to the left; what goes up to the next byte must not be in the mask.
#[inline(always)]
pub fn bits_up(bytes: v128, by: usize, mask: u8) -> v128 {
    v128_and(u16x8_shl(bytes, by as u32), u8x16_splat(mask))
}

/// Low and high nibbles of 16 bytes.
#[inline(always)]
pub fn nibbles(bytes: v128) -> [v128; 2] {
    [bits(bytes, 0, 15), bits(bytes, 4, 15)]
}

/// What nibbles stand for: the weights of IQ4_NL and IQ4_XS, or of MXFP4.
#[inline(always)]
pub fn look_up(weights: &[i8; 16], bytes: v128) -> [v128; 2] {
    let table = load(weights, 0);
    nibbles(bytes).map(|nibble| i8x16_swizzle(table, nibble))
}
