//! IQ3_XXS and IQ3_S: points of 4 elements from a codebook, with signs.

use super::codebook::{self, even_signs, put_signed};
use super::{Codec, Words, apart, f16_at, nibble, u32_at};
use crate::blocks::{Decode, Iq3S, Iq3Xxs};

/// `d: f16, points: [u8; 64], signs_and_scales: [u32; 8]`; scale of 32 elements = d * (0.5 + scale) / 2.
/// A word holds 4 times 7 sign bits, each for two points, and a 4-bit scale.
pub(crate) const IQ3_XXS: Codec =
    Codec { decode: Iq3Xxs::decode, encode: None, words: &[Words::new(0, 2, 1), Words::new(66, 4, 8)] };

#[inline(always)]
pub(crate) fn iq3_xxs(block: &[u8; 98], out: &mut [f32; 256]) {
    let d = f16_at(block, 0);
    for (group, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        apart();
        let points = &block[2 + 8 * group..][..8];
        let word = u32_at(block, 66 + 4 * group);
        let scale = d * (0.5 + (word >> 28) as f32) * 0.5;
        for (i, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let point = |side: usize| codebook::IQ3_XXS[usize::from(points[2 * i + side])];
            put_signed(out, scale, &both(point(0), point(1)), even_signs(word >> (7 * i)));
        }
    }
}

/// `d: f16, points_low: [u8; 64], points_high: [u8; 8] (1 bit each), signs: [u8; 32], scales: [u8; 4]`;
/// scale of 32 elements = d * (1 + 2 * nibble).
pub(crate) const IQ3_S: Codec = Codec { decode: Iq3S::decode, encode: None, words: &[Words::new(0, 2, 1)] };

#[inline(always)]
pub(crate) fn iq3_s(block: &[u8; 110], out: &mut [f32; 256]) {
    let d = f16_at(block, 0);
    for (i, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        apart();
        let scale = d * f32::from(1 + 2 * nibble(&block[106..], i / 4));
        let ninth = block[66 + i / 4] >> (2 * (i % 4));
        let point = |side: usize| {
            let high = usize::from(ninth >> side) & 1;
            codebook::IQ3_S[usize::from(block[2 + 2 * i + side]) | (high << 8)]
        };
        put_signed(out, scale, &both(point(0), point(1)), block[74 + i]);
    }
}

/// Two points as one.
#[inline(always)]
fn both(first: [i8; 4], second: [i8; 4]) -> [i8; 8] {
    let ([a, b, c, d], [e, f, g, h]) = (first, second);
    [a, b, c, d, e, f, g, h]
}
