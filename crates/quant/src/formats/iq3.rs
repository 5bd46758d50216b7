//! IQ3_XXS and IQ3_S: points of 4 elements from a codebook, with signs.

use std::sync::LazyLock;

use super::codebook::{self, even_signs, put_signed};
use super::fit::fit;
use super::nearest::Book;
use super::shape::{Shape, Signs};
use super::{Codec, Words, apart, f16_at, importance_of, nibble, put_nibbles, u32_at};
use crate::blocks::{Decode, Iq3S, Iq3Xxs};
use crate::lanes::Lanes;

/// `d: f16, points: [u8; 64], signs_and_scales: [u32; 8]`; scale of 32 elements = d * (0.5 + scale) / 2.
/// A word holds 4 times 7 sign bits, each for two points, and a 4-bit scale.
pub(crate) const IQ3_XXS: Codec = Codec {
    decode: Iq3Xxs::decode,
    encode: Some(encode_iq3_xxs::<f32>),
    words: &[Words::new(0, 2, 1), Words::new(66, 4, 8)],
};

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
pub(crate) const IQ3_S: Codec =
    Codec { decode: Iq3S::decode, encode: Some(encode_iq3_s::<f32>), words: &[Words::new(0, 2, 1)] };

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

macro_rules! shape {
    ($format:ident $book:ident $levels:ident, unit $unit:literal, $signs:ident) => {
        impl Shape<4, 8> for $format {
            const GROUP: usize = 32;
            const NUMBERS: i32 = 15;
            const SIGNS: Signs = Signs::$signs;
            const UNIT: f64 = $unit;
            const LEVELS: [i8; 8] = codebook::$levels;
            const STEPS: (f32, f32) = (0.6 * codebook::$levels[7] as f32, 1.8 * codebook::$levels[7] as f32);
            const SPREADS: (f32, f32) = (2.0, 0.0);

            fn book() -> &'static Book {
                static BOOK: LazyLock<Book> = LazyLock::new(|| Book::new(&codebook::$book, &codebook::$levels, 4));
                &BOOK
            }
        }
    };
}

shape!(Iq3Xxs IQ3_XXS LEVELS_3_XXS, unit 4.0, Even);
shape!(Iq3S IQ3_S LEVELS_3_S, unit 1.0, Free);

#[inline(always)]
pub(crate) fn encode_iq3_xxs<V: Lanes>(values: &[f32], importance: Option<&[f32]>, bytes: &mut [u8]) {
    for (i, (values, bytes)) in values.as_chunks().0.iter().zip(bytes.as_chunks_mut::<98>().0).enumerate() {
        let found = fit::<V, Iq3Xxs, 4, 8>(values, importance_of(importance, i));
        bytes[..2].copy_from_slice(&found.d.to_le_bytes());
        for i in 0..64 {
            bytes[2 + i] = found.points[i] as u8;
        }
        for (group, bytes) in bytes[66..].as_chunks_mut::<4>().0.iter_mut().enumerate() {
            let signs = (0..4).fold(0, |word, i| word | u32::from(found.signs[4 * group + i] & 127) << (7 * i));
            *bytes = (signs | (u32::from(found.scales[group]) << 28)).to_le_bytes();
        }
    }
}

#[inline(always)]
pub(crate) fn encode_iq3_s<V: Lanes>(values: &[f32], importance: Option<&[f32]>, bytes: &mut [u8]) {
    for (i, (values, bytes)) in values.as_chunks().0.iter().zip(bytes.as_chunks_mut::<110>().0).enumerate() {
        let found = fit::<V, Iq3S, 4, 8>(values, importance_of(importance, i));
        bytes.fill(0);
        bytes[..2].copy_from_slice(&found.d.to_le_bytes());
        for i in 0..64 {
            bytes[2 + i] = found.points[i] as u8;
            bytes[66 + i / 8] |= ((found.points[i] >> 8) as u8) << (i % 8);
        }
        bytes[74..106].copy_from_slice(&found.signs);
        put_nibbles(&mut bytes[106..], &found.scales[..8]);
    }
}
