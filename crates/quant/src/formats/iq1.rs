//! IQ1_S and IQ1_M: ternary points of 8 elements, all shifted by an eighth up or down.

use super::{Codec, Words, apart, codebook, f16_at, nibble, u16_at};
use crate::blocks::{Decode, Iq1M, Iq1S};
use crate::half::f16_to_f32;

const SHIFT: f32 = 0.125;

/// `d: f16, points_low: [u8; 32], groups: [u16; 8]`; value = (d * (2 * scale + 1)) * (point +- SHIFT).
/// The word of a group of 32 elements: 4 times 3 high bits of points, a 3-bit scale, the sign of the shift.
pub(crate) const IQ1_S: Codec =
    Codec { decode: Iq1S::decode, encode: None, words: &[Words::new(0, 2, 1), Words::new(34, 2, 8)] };

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
pub(crate) const IQ1_M: Codec = Codec { decode: Iq1M::decode, encode: None, words: &[Words::new(48, 2, 4)] };

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
