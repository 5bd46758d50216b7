//! Q6_K: 256 elements of 4 + 2 bits in 16 groups, each with an 8-bit scale.

use super::{Codec, Words, f16_at};
use crate::blocks::{Decode, Q6K};

/// `low: [u8; 128], high: [u8; 64], scales: [i8; 16], d: f16`; value = (d * scale) * (q - 32).
///
/// Two halves of 128 elements, each in four runs of 32. Runs 0 and 1 are the low nibbles of the half's first and
/// second 32 bytes of `low`, runs 2 and 3 their high nibbles; run k has its upper bits at bit 2k of the half's bytes
/// of `high`.
pub(crate) const Q6_K: Codec = Codec { decode: Q6K::decode, encode: None, words: &[Words::new(208, 2, 1)] };

#[inline(always)]
pub(crate) fn q6_k(block: &[u8; 210], out: &mut [f32; 256]) {
    let d = f16_at(block, 208);
    for (group, out) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let (half, run, side) = (group / 8, group % 8 / 2, 16 * (group % 2));
        let scale = d * f32::from(block[192 + group] as i8);
        let low = &block[64 * half + 32 * (run % 2) + side..][..16];
        let high = &block[128 + 32 * half + side..][..16];
        for ((out, l), h) in out.iter_mut().zip(low).zip(high) {
            let q = ((l >> (4 * (run / 2))) & 15) | (((h >> (2 * run)) & 3) << 4);
            *out = scale * f32::from(q as i8 - 32);
        }
    }
}
