//! Q5_K: as Q4_K, with a fifth bit per element.

use super::q4_k::scales_and_minima;
use super::{Codec, Words, apart};
use crate::blocks::{Decode, Q5K};

/// `d: f16, dmin: f16, scales: [u8; 12], high: [u8; 32], quants: [u8; 128]`;
/// value = (d * scale) * q - dmin * minimum.
///
/// Group g has its fifth bits at bit g of each byte of `high`.
pub(crate) const Q5_K: Codec = Codec { decode: Q5K::decode, encode: None, words: &[Words::new(0, 2, 2)] };

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
