//! Taking numbers out of packed bytes: what several formats share.

use std::arch::wasm32::*;

use super::format::Eight;
use super::registers::load;
use crate::array::Each;

/// The four bytes at `at`, the first one lowest.
#[inline(always)]
pub fn word_at<const N: usize>(w: &[u8; N], at: usize) -> u32 {
    u32::from_le_bytes([w[at], w[at + 1], w[at + 2], w[at + 3]])
}

/// Eight words, without sign, as floats times `d`.
#[inline(always)]
pub fn times_words(d: f32, words: v128) -> Eight {
    [u32x4_extend_low_u16x8(words), u32x4_extend_high_u16x8(words)]
        .each(|four| f32x4_mul(f32x4_convert_i32x4(four), f32x4_splat(d)))
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
    nibbles(bytes).each(|nibble| i8x16_swizzle(table, nibble))
}
