//! Q5_K: as Q4_K, with a fifth bit per element.

use super::k_quants::{Rules, block, pack_fours};
use super::q4_k::{put_scales, scales_and_minima};
use super::search::Steps;
use super::{Codec, Words, apart, importance_of};
use crate::blocks::{Decode, Q5K};
use crate::lanes::Lanes;

/// `d: f16, dmin: f16, scales: [u8; 12], high: [u8; 32], quants: [u8; 128]`;
/// value = (d * scale) * q - dmin * minimum.
///
/// Group g has its fifth bits at bit g of each byte of `high`.
pub(crate) const Q5_K: Codec =
    Codec { decode: Q5K::decode, encode: Some(encode_q5_k::<f32>), words: &[Words::new(0, 2, 2)] };

#[inline(always)]
pub(crate) fn q5_k(block: &[u8; 176], out: &mut [f32; 256]) {
    let groups = scales_and_minima(block);
    let high = &block[16..48];
    for (group, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        apart();
        let (scale, minimum) = groups[group];
        let quants = &block[48 + 32 * (group / 2)..][..32];
        for ((out, q), h) in out.iter_mut().zip(quants).zip(high) {
            let q = ((q >> (4 * (group % 2))) & 15) | (((h >> group) & 1) << 4);
            *out = scale * f32::from(q) - minimum;
        }
    }
}

const RULES: Rules = Rules {
    levels: 31,
    scales: 63,
    steps: Steps { levels: 31, from: -0.5, by: 0.1, count: 15, distance: false, clamped: false },
    even: true,
    spread: 2.0,
};

#[inline(always)]
pub(crate) fn encode_q5_k<V: Lanes>(values: &[f32], importance: Option<&[f32]>, bytes: &mut [u8]) {
    // No closure: with instructions of the caller's it would be a call, and so would all that it computes.
    let blocks = values.as_chunks().0.iter().zip(bytes.as_chunks_mut::<176>().0);
    for (i, (values, bytes)) in blocks.enumerate() {
        let found = block::<V, 8, 32>(values, importance_of(importance, i), RULES);
        put_scales(&found, bytes);
        let mut high = [0; 32];
        for (group, quants) in found.quants.as_chunks::<32>().0.iter().enumerate() {
            for j in 0..32 {
                high[j] |= (quants[j] >> 4) << group;
            }
        }
        bytes[16..48].copy_from_slice(&high);
        pack_fours(&found.quants, &mut bytes[48..]);
    }
}
