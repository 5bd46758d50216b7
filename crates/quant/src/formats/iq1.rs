//! IQ1_S and IQ1_M: ternary points of 8 elements, all shifted by an eighth up or down.

use std::sync::LazyLock;

use super::fit::fit;
use super::nearest::Book;
use super::shape::{SHIFT, Shape, Signs};
use super::{Codec, Words, apart, codebook, f16_at, importance_of, nibble, put_nibbles, u16_at};
use crate::blocks::{Decode, Iq1M, Iq1S};
use crate::half::f16_to_f32;
use crate::lanes::Lanes;

/// `d: f16, points_low: [u8; 32], groups: [u16; 8]`; value = (d * (2 * scale + 1)) * (point +- SHIFT).
/// The word of a group of 32 elements: 4 times 3 high bits of points, a 3-bit scale, the sign of the shift.
pub(crate) const IQ1_S: Codec = Codec {
    decode: Iq1S::decode,
    encode: Some(encode_iq1_s::<f32>),
    words: &[Words::new(0, 2, 1), Words::new(34, 2, 8)],
};

#[inline(always)]
pub(crate) fn iq1_s(block: &[u8; 50], out: &mut [f32; 256]) {
    let d = f16_at(block, 0);
    for (i, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        apart();
        let group = u16_at(block, 34 + 2 * (i / 4));
        let scale = d * f32::from(2 * ((group >> 12) & 7) + 1);
        let point = usize::from(block[2 + i]) | (usize::from((group >> (3 * (i % 4))) & 7) << 8);
        put(out, scale, point, group & 0x8000 != 0);
    }
}

/// `points_low: [u8; 32], points_high: [u8; 16], scales: [u16; 4]`; value as IQ1_S.
/// A nibble of `points_high`: 3 high bits of a point and the sign of its shift. A word of `scales`: 4 times a 3-bit
/// scale of 16 elements, and on top 4 bits of d, which is an f16 cut in four.
pub(crate) const IQ1_M: Codec =
    Codec { decode: Iq1M::decode, encode: Some(encode_iq1_m::<f32>), words: &[Words::new(48, 2, 4)] };

#[inline(always)]
pub(crate) fn iq1_m(block: &[u8; 56], out: &mut [f32; 256]) {
    let word = |i: usize| u16_at(block, 48 + 2 * i);
    let d = f16_to_f32((0..4).fold(0, |bits, i| bits | ((word(i) >> 12) << (4 * i))));
    for (i, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        apart();
        let scale = d * f32::from(2 * ((word(i / 8) >> (3 * (i / 2 % 4))) & 7) + 1);
        let high = nibble(&block[32..48], i);
        put(out, scale, usize::from(block[i]) | (usize::from(high & 7) << 8), high & 8 != 0);
    }
}

#[inline(always)]
fn put(out: &mut [f32; 8], scale: f32, point: usize, down: bool) {
    let shift = if down { -SHIFT } else { SHIFT };
    for (out, &coordinate) in out.iter_mut().zip(&codebook::IQ1[point]) {
        *out = scale * (f32::from(coordinate) + shift);
    }
}

macro_rules! shape {
    ($format:ident, groups of $group:literal, $signs:ident, alone $alone:literal) => {
        impl Shape<8, 3> for $format {
            const GROUP: usize = $group;
            const NUMBERS: i32 = 7;
            const SIGNS: Signs = Signs::$signs;
            const UNIT: f64 = 1.0;
            const LEVELS: [i8; 3] = codebook::LEVELS_1;
            const STEPS: (f32, f32) = (0.8, 4.0);
            const SPREADS: (f32, f32) = (2.0, $alone);

            fn book() -> &'static Book {
                static BOOK: LazyLock<Book> = LazyLock::new(|| Book::new(&codebook::IQ1, &codebook::LEVELS_1, 2));
                &BOOK
            }
        }
    };
}

shape!(Iq1S, groups of 32, Shifted, alone 0.5);
shape!(Iq1M, groups of 16, ShiftedEach, alone 0.0);

#[inline(always)]
pub(crate) fn encode_iq1_s<V: Lanes>(values: &[f32], importance: Option<&[f32]>, bytes: &mut [u8]) {
    for (i, (values, bytes)) in values.as_chunks().0.iter().zip(bytes.as_chunks_mut::<50>().0).enumerate() {
        let found = fit::<V, Iq1S, 8, 3>(values, importance_of(importance, i));
        bytes[..2].copy_from_slice(&found.d.to_le_bytes());
        for group in 0..8 {
            let mut word = (u16::from(found.scales[group]) << 12) | (u16::from(found.signs[4 * group]) << 15);
            for i in 0..4 {
                let point = found.points[4 * group + i];
                bytes[2 + 4 * group + i] = point as u8;
                word |= (point >> 8) << (3 * i);
            }
            bytes[34 + 2 * group..][..2].copy_from_slice(&word.to_le_bytes());
        }
    }
}

#[inline(always)]
pub(crate) fn encode_iq1_m<V: Lanes>(values: &[f32], importance: Option<&[f32]>, bytes: &mut [u8]) {
    for (i, (values, bytes)) in values.as_chunks().0.iter().zip(bytes.as_chunks_mut::<56>().0).enumerate() {
        let found = fit::<V, Iq1M, 8, 3>(values, importance_of(importance, i));
        let mut high = [0; 32];
        for i in 0..32 {
            bytes[i] = found.points[i] as u8;
            high[i] = (found.points[i] >> 8) as u8 | (found.signs[i] << 3);
        }
        put_nibbles(&mut bytes[32..48], &high);
        for (i, bytes) in bytes[48..].as_chunks_mut::<2>().0.iter_mut().enumerate() {
            let scales = (0..4).fold(0, |word, k| word | u16::from(found.scales[4 * i + k]) << (3 * k));
            *bytes = (scales | (((found.d >> (4 * i)) & 15) << 12)).to_le_bytes();
        }
    }
}
