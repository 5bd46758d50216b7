//! Q3_K: 256 elements of 2 + 1 bits in 16 groups, each with a signed 6-bit scale.

use super::{Codec, Words, apart, f16_at, nibble, scaled};
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
    for (run, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        apart();
        let (low, high) = (&block[32 + 32 * (run / 4)..][..32], &block[..32]);
        let mut quants = [0; 32];
        for ((quant, l), h) in quants.iter_mut().zip(low).zip(high) {
            let q = ((l >> (2 * (run % 4))) & 3) | (((h >> run) & 1) << 2);
            *quant = q as i8 - 4;
        }
        let scale = |side: usize| d * f32::from(scales[2 * run + side] - 32);
        scaled(out, [scale(0), scale(1)], &quants);
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
