//! IQ4_NL and IQ4_XS: 4-bit numbers into a fixed table of 16 unevenly spaced values.

use super::{Codec, Words, apart, f16_at, nibble, u16_at};
use crate::blocks::{Decode, Iq4Nl, Iq4Xs};

/// The values, denser around zero as weights are.
const VALUES: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// `d: f16, quants: [u8; 16]` laid out as in Q4_0; value = d * VALUES\[q\].
pub(crate) const IQ4_NL: Codec = Codec { decode: Iq4Nl::decode, encode: None, words: &[Words::new(0, 2, 1)] };

#[inline(always)]
pub(crate) fn iq4_nl(block: &[u8; 18], out: &mut [f32; 32]) {
    look_up(f16_at(block, 0), &block[2..], out);
}

/// `d: f16, scales_high: u16, scales_low: [u8; 4], quants: [u8; 128]`; value = (d * (scale - 32)) * VALUES\[q\].
///
/// Eight groups of 32, each laid out as an IQ4_NL block; scales have 4 low bits and 2 high ones.
pub(crate) const IQ4_XS: Codec = Codec { decode: Iq4Xs::decode, encode: None, words: &[Words::new(0, 2, 2)] };

#[inline(always)]
pub(crate) fn iq4_xs(block: &[u8; 136], out: &mut [f32; 256]) {
    let (d, high) = (f16_at(block, 0), u16_at(block, 2));
    for (group, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        apart();
        let scale = u16::from(nibble(&block[4..8], group)) | (((high >> (2 * group)) & 3) << 4);
        look_up(d * (f32::from(scale) - 32.0), &block[8 + 16 * group..][..16], out);
    }
}

#[inline(always)]
fn look_up(scale: f32, quants: &[u8], out: &mut [f32; 32]) {
    let (low, high) = out.split_at_mut(16);
    for ((q, low), high) in quants.iter().zip(low).zip(high) {
        *low = scale * f32::from(VALUES[usize::from(q & 15)]);
        *high = scale * f32::from(VALUES[usize::from(q >> 4)]);
    }
}
