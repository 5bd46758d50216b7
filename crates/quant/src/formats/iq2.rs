//! IQ2_XXS, IQ2_XS and IQ2_S: points of 8 elements from a codebook, with signs.

use super::codebook::{self, even_signs, put_signed};
use super::{Codec, Words, apart, f16_at, nibble, u16_at, u32_at};
use crate::blocks::{Decode, Iq2S, Iq2Xs, Iq2Xxs};

/// `d: f16, groups: [{ points: [u8; 4], signs_and_scale: u32 }; 8]`; scale of 32 elements = d * (0.5 + scale) / 4.
/// The word holds 4 times 7 sign bits and a 4-bit scale.
pub(crate) const IQ2_XXS: Codec = Codec {
    decode: Iq2Xxs::decode,
    encode: None,
    // ggml's struct says u16 throughout, its decoder reads bytes and one u32 per group.
    words: &[Words::new(0, 2, 1), Words { at: 6, width: 4, count: 8, step: 8 }],
};

#[inline(always)]
pub(crate) fn iq2_xxs(block: &[u8; 66], out: &mut [f32; 256]) {
    let d = f16_at(block, 0);
    for (group, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        apart();
        let points = &block[2 + 8 * group..][..8];
        let word = u32_at(points, 4);
        let scale = d * (0.5 + (word >> 28) as f32) * 0.25;
        for (i, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let point = &codebook::IQ2_XXS[usize::from(points[i])];
            put_signed(out, scale, point, even_signs(word >> (7 * i)));
        }
    }
}

/// `d: f16, points: [u16; 32] (9 bits of point, 7 of signs), scales: [u8; 8]`;
/// scale of 16 elements = d * (0.5 + nibble) / 4.
pub(crate) const IQ2_XS: Codec = Codec { decode: Iq2Xs::decode, encode: None, words: &[Words::new(0, 2, 33)] };

#[inline(always)]
pub(crate) fn iq2_xs(block: &[u8; 74], out: &mut [f32; 256]) {
    let d = f16_at(block, 0);
    for (i, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        apart();
        let scale = d * (0.5 + f32::from(nibble(&block[66..], i / 2))) * 0.25;
        let word = u16_at(block, 2 + 2 * i);
        let point = &codebook::IQ2_XS[usize::from(word & 511)];
        put_signed(out, scale, point, even_signs(u32::from(word >> 9)));
    }
}

/// `d: f16, points_low: [u8; 32], signs: [u8; 32], points_high: [u8; 8] (2 bits each), scales: [u8; 8]`;
/// scale of 16 elements = d * (0.5 + nibble) / 4.
pub(crate) const IQ2_S: Codec = Codec { decode: Iq2S::decode, encode: None, words: &[Words::new(0, 2, 1)] };

#[inline(always)]
pub(crate) fn iq2_s(block: &[u8; 82], out: &mut [f32; 256]) {
    let d = f16_at(block, 0);
    for (i, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        apart();
        let scale = d * (0.5 + f32::from(nibble(&block[74..], i / 2))) * 0.25;
        let high = usize::from(block[66 + i / 4] >> (2 * (i % 4))) & 3;
        let point = &codebook::IQ2_S[usize::from(block[2 + i]) | (high << 8)];
        put_signed(out, scale, point, block[34 + i]);
    }
}
