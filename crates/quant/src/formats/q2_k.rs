//! Q2_K: 256 elements of 2 bits in 16 groups, each with a 4-bit scale and a 4-bit minimum.

use super::{Codec, Words, f16_at};
use crate::blocks::{Decode, Q2K};

/// `scales: [u8; 16] (low scale, high minimum), quants: [u8; 64], d: f16, dmin: f16`;
/// value = (d * scale) * q - dmin * minimum.
///
/// Quants come in two halves of 32 bytes; run k of 32 elements is the k-th pair of bits of each byte of its half.
pub(crate) const Q2_K: Codec = Codec { decode: Q2K::decode, encode: None, words: &[Words::new(80, 2, 2)] };

#[inline(always)]
pub(crate) fn q2_k(block: &[u8; 84], out: &mut [f32; 256]) {
    let (d, dmin) = (f16_at(block, 80), f16_at(block, 82));
    for (group, out) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let (half, k) = (group / 8, group % 8 / 2);
        let scale = d * f32::from(block[group] & 15);
        let minimum = dmin * f32::from(block[group] >> 4);
        let quants = &block[16 + 32 * half + 16 * (group % 2)..][..16];
        for (out, q) in out.iter_mut().zip(quants) {
            *out = scale * f32::from((q >> (2 * k)) & 3) - minimum;
        }
    }
}
