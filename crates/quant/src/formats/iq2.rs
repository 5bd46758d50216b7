//! IQ2_XXS, IQ2_XS and IQ2_S: points of 8 elements from a codebook, with signs.

use std::sync::LazyLock;

use super::codebook::{self, even_signs, put_signed};
use super::fit::fit;
use super::nearest::Book;
use super::shape::{Shape, Signs};
use super::{Codec, Words, apart, f16_at, importance_of, nibble, put_nibbles, u16_at, u32_at};
use crate::blocks::{Decode, Iq2S, Iq2Xs, Iq2Xxs};
use crate::lanes::Lanes;

/// `d: f16, groups: [{ points: [u8; 4], signs_and_scale: u32 }; 8]`; scale of 32 elements = d * (0.5 + scale) / 4.
/// The word holds 4 times 7 sign bits and a 4-bit scale.
pub(crate) const IQ2_XXS: Codec = Codec {
    decode: Iq2Xxs::decode,
    encode: Some(encode_iq2_xxs::<f32>),
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
pub(crate) const IQ2_XS: Codec =
    Codec { decode: Iq2Xs::decode, encode: Some(encode_iq2_xs::<f32>), words: &[Words::new(0, 2, 33)] };

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
pub(crate) const IQ2_S: Codec =
    Codec { decode: Iq2S::decode, encode: Some(encode_iq2_s::<f32>), words: &[Words::new(0, 2, 1)] };

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

macro_rules! shape {
    ($format:ident $book:ident, groups of $group:literal, $signs:ident, spread $with:literal $alone:literal) => {
        impl Shape<8, 3> for $format {
            const GROUP: usize = $group;
            const NUMBERS: i32 = 15;
            const SIGNS: Signs = Signs::$signs;
            const UNIT: f64 = 8.0;
            const LEVELS: [i8; 3] = codebook::LEVELS_2;
            const STEPS: (f32, f32) = (24.0, 80.0);
            const SPREADS: (f32, f32) = ($with, $alone);

            fn book() -> &'static Book {
                static BOOK: LazyLock<Book> = LazyLock::new(|| Book::new(&codebook::$book, &codebook::LEVELS_2, 4));
                &BOOK
            }
        }
    };
}

shape!(Iq2Xxs IQ2_XXS, groups of 32, Even, spread 1.0 0.5);
shape!(Iq2Xs IQ2_XS, groups of 16, Even, spread 1.0 0.5);
shape!(Iq2S IQ2_S, groups of 16, Free, spread 2.0 0.5);

#[inline(always)]
pub(crate) fn encode_iq2_xxs<V: Lanes>(values: &[f32], importance: Option<&[f32]>, bytes: &mut [u8]) {
    for (i, (values, bytes)) in values.as_chunks().0.iter().zip(bytes.as_chunks_mut::<66>().0).enumerate() {
        let found = fit::<V, Iq2Xxs, 8, 3>(values, importance_of(importance, i));
        bytes[..2].copy_from_slice(&found.d.to_le_bytes());
        for (group, bytes) in bytes[2..].as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let mut word = u32::from(found.scales[group]) << 28;
            let (points, rest) = bytes.split_at_mut(4);
            for (i, point) in points.iter_mut().enumerate() {
                *point = found.points[4 * group + i] as u8;
                word |= u32::from(found.signs[4 * group + i] & 127) << (7 * i);
            }
            rest.copy_from_slice(&word.to_le_bytes());
        }
    }
}

#[inline(always)]
pub(crate) fn encode_iq2_xs<V: Lanes>(values: &[f32], importance: Option<&[f32]>, bytes: &mut [u8]) {
    for (i, (values, bytes)) in values.as_chunks().0.iter().zip(bytes.as_chunks_mut::<74>().0).enumerate() {
        let found = fit::<V, Iq2Xs, 8, 3>(values, importance_of(importance, i));
        bytes[..2].copy_from_slice(&found.d.to_le_bytes());
        for i in 0..32 {
            let word = found.points[i] | (u16::from(found.signs[i] & 127) << 9);
            bytes[2 + 2 * i..][..2].copy_from_slice(&word.to_le_bytes());
        }
        put_nibbles(&mut bytes[66..], &found.scales);
    }
}

#[inline(always)]
pub(crate) fn encode_iq2_s<V: Lanes>(values: &[f32], importance: Option<&[f32]>, bytes: &mut [u8]) {
    for (i, (values, bytes)) in values.as_chunks().0.iter().zip(bytes.as_chunks_mut::<82>().0).enumerate() {
        let found = fit::<V, Iq2S, 8, 3>(values, importance_of(importance, i));
        bytes.fill(0);
        bytes[..2].copy_from_slice(&found.d.to_le_bytes());
        for (i, &point) in found.points[..32].iter().enumerate() {
            bytes[2 + i] = point as u8;
            bytes[66 + i / 4] |= ((point >> 8) as u8) << (2 * (i % 4));
        }
        bytes[34..66].copy_from_slice(&found.signs);
        put_nibbles(&mut bytes[74..], &found.scales);
    }
}
