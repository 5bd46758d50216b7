//! Q3_K: 256 elements of 2 + 1 bits in 16 groups, each with a signed 6-bit scale.

use super::{Codec, Words, f16_at, nibble};
use crate::blocks::{Decode, Q3K};

/// `high: [u8; 32], quants: [u8; 64], scales: [u8; 12], d: f16`; value = (d * (scale - 32)) * (q - 4 * !high).
///
/// Low bits as in Q2_K. Run r of 32 elements has its third bits at bit r of each byte of `high`, where a set bit
/// subtracts nothing.
pub(crate) const Q3_K: Codec = Codec { decode: Q3K::decode, encode: None, words: &[Words::new(108, 2, 1)] };

#[inline(always)]
pub(crate) fn q3_k(block: &[u8; 110], out: &mut [f32; 256]) {
    let d = f16_at(block, 108);
    let scales = scales(&block[96..108]);
    for (group, out) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let (half, run) = (group / 8, group / 2);
        let scale = d * f32::from(scales[group] - 32);
        let quants = &block[32 + 32 * half + 16 * (group % 2)..][..16];
        let high = &block[16 * (group % 2)..][..16];
        for ((out, q), h) in out.iter_mut().zip(quants).zip(high) {
            let q = ((q >> (2 * (run % 4))) & 3) | (((h >> run) & 1) << 2);
            *out = scale * f32::from(q as i8 - 4);
        }
    }
}

/// Sixteen 6-bit scales: low nibbles in the first 8 bytes (scales 0-7, then 8-15 in the upper halves), pairs of high
/// bits in the last 4 (byte j has those of scales j, j + 4, j + 8, j + 12).
fn scales(packed: &[u8]) -> [i8; 16] {
    std::array::from_fn(|i| {
        let low = nibble(packed, 2 * (i % 8) + i / 8);
        let high = (packed[8 + i % 4] >> (2 * (i / 4))) & 3;
        (low | (high << 4)) as i8
    })
}
