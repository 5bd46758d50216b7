//! TQ1_0 and TQ2_0: 256 ternary elements (-1, 0, 1) and one scale.

use super::{Codec, Words, apart, encode_blocks, f16_at, magnitude, put_f16, reciprocal};
use crate::blocks::{Decode, Tq1_0, Tq2_0};

/// `quants: [u8; 48], tail: [u8; 4], d: f16`; value = d * (digit - 1).
///
/// A byte holds base-3 digits as a fraction of 256: times 3^k, modulo 256, times 3, the overflow is digit k. Run k of a
/// stretch of bytes is the k-th digit of each; the stretches are 32 and 16 bytes of 5 digits and 4 bytes of 4.
pub(crate) const TQ1_0: Codec =
    Codec { decode: Tq1_0::decode, encode: Some(encode_tq1_0), words: &[Words::new(52, 2, 1)] };

#[inline(always)]
pub(crate) fn tq1_0(block: &[u8; 54], out: &mut [f32; 256]) {
    let d = f16_at(block, 52);
    let (first, rest) = out.split_at_mut(160);
    let (second, tail) = rest.split_at_mut(80);
    for (stretch, out) in [(&block[..32], first), (&block[32..48], second), (&block[48..52], tail)] {
        let mut power = 1u8;
        for run in out.chunks_exact_mut(stretch.len()) {
            for (out, byte) in run.iter_mut().zip(stretch) {
                let digit = (u16::from(byte.wrapping_mul(power)) * 3) >> 8;
                *out = d * (f32::from(digit) - 1.0);
            }
            power = power.wrapping_mul(3);
        }
    }
}

/// `quants: [u8; 64], d: f16`; value = d * (q - 1). The bits lie as in Q2_K.
pub(crate) const TQ2_0: Codec =
    Codec { decode: Tq2_0::decode, encode: Some(encode_tq2_0), words: &[Words::new(64, 2, 1)] };

#[inline(always)]
pub(crate) fn tq2_0(block: &[u8; 66], out: &mut [f32; 256]) {
    let d = f16_at(block, 64);
    for (run, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        apart();
        for (out, q) in out.iter_mut().zip(&block[32 * (run / 4)..][..32]) {
            *out = d * (f32::from((q >> (2 * (run % 4))) & 3) - 1.0);
        }
    }
}

#[inline(always)]
pub(crate) fn encode_tq1_0(values: &[f32], importance: Option<&[f32]>, bytes: &mut [u8]) {
    encode_blocks(values, importance, bytes, |values: &[f32; 256], _, block: &mut [u8; 54]| {
        let d = magnitude(values);
        put_f16(block, 52, d);
        let inverse = reciprocal(d);
        let stretches = [(0..32, &values[..160]), (32..48, &values[160..240]), (48..52, &values[240..])];
        for (stretch, values) in stretches {
            let count = stretch.len();
            for (j, byte) in block[stretch].iter_mut().enumerate() {
                let digit = |k: usize| values.get(j + k * count).map_or(0, |value| digit(value * inverse));
                let number = (0..5).fold(0u8, |number, k| number.wrapping_mul(3).wrapping_add(digit(k)));
                *byte = (u16::from(number) * 256).div_ceil(243) as u8;
            }
        }
    });
}

#[inline(always)]
pub(crate) fn encode_tq2_0(values: &[f32], importance: Option<&[f32]>, bytes: &mut [u8]) {
    encode_blocks(values, importance, bytes, |values: &[f32; 256], _, block: &mut [u8; 66]| {
        let d = magnitude(values);
        put_f16(block, 64, d);
        let inverse = reciprocal(d);
        for (half, values) in values.as_chunks::<128>().0.iter().enumerate() {
            for j in 0..32 {
                let digits = (0..4).map(|k| digit(values[j + 32 * k] * inverse) << (2 * k));
                block[32 * half + j] = digits.fold(0, |byte, digit| byte | digit);
            }
        }
    });
}

/// -1, 0 or 1, raised by 1: what has no room for an integer is 0.
#[inline(always)]
fn digit(x: f32) -> u8 {
    1u8.wrapping_add(if x.is_finite() { x.round() as i8 as u8 } else { 0 })
}
