//! Q2_K: 256 elements of 2 bits in 16 groups, each with a 4-bit scale and a 4-bit minimum.

use super::k_quants::{Rules, block, pack_twos};
use super::search::Steps;
use super::{Codec, Words, apart, f16_at, importance_of};
use crate::blocks::{Decode, Q2K};
use crate::lanes::Lanes;

/// `scales: [u8; 16] (low scale, high minimum), quants: [u8; 64], d: f16, dmin: f16`;
/// value = (d * scale) * q - dmin * minimum.
///
/// Quants come in two halves of 32 bytes; run k of 32 elements is the k-th pair of bits of each byte of its half.
pub(crate) const Q2_K: Codec =
    Codec { decode: Q2K::decode, encode: Some(encode_q2_k::<f32>), words: &[Words::new(80, 2, 2)] };

#[inline(always)]
pub(crate) fn q2_k(block: &[u8; 84], out: &mut [f32; 256]) {
    let (d, dmin) = (f16_at(block, 80), f16_at(block, 82));
    for (run, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        apart();
        let both = [block[2 * run], block[2 * run + 1]];
        let (scales, minima) =
            (both.map(|byte| d * f32::from(byte & 15)), both.map(|byte| dmin * f32::from(byte >> 4)));
        let quants: &[u8; 32] = &block[16 + 32 * (run / 4)..][..32].try_into().expect("32 of 64 bytes");
        for i in 0..32 {
            let (scale, minimum) = if i < 16 { (scales[0], minima[0]) } else { (scales[1], minima[1]) };
            out[i] = scale * f32::from((quants[i] >> (2 * (run % 4))) & 3) - minimum;
        }
    }
}

const RULES: Rules = Rules {
    levels: 3,
    scales: 15,
    steps: Steps { levels: 3, from: -0.5, by: 0.1, count: 15, distance: true, clamped: false },
    even: false,
    spread: 1.0,
};

#[inline(always)]
pub(crate) fn encode_q2_k<V: Lanes>(values: &[f32], importance: Option<&[f32]>, bytes: &mut [u8]) {
    // No closure: with instructions of the caller's it would be a call, and so would all that it computes.
    let blocks = values.as_chunks().0.iter().zip(bytes.as_chunks_mut::<84>().0);
    for (i, (values, bytes)) in blocks.enumerate() {
        let found = block::<V, 16, 16>(values, importance_of(importance, i), RULES);
        for (group, byte) in bytes[..16].iter_mut().enumerate() {
            *byte = found.scales[group] | (found.minima[group] << 4);
        }
        pack_twos(&found.quants, &mut bytes[16..80]);
        bytes[80..82].copy_from_slice(&found.d.to_le_bytes());
        bytes[82..].copy_from_slice(&found.dmin.to_le_bytes());
    }
}
