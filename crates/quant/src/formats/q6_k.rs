//! Q6_K: 256 elements of 4 + 2 bits in 16 groups, each with an 8-bit scale.

use super::{Codec, Words, apart, f16_at, scaled};
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
    for (run, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        apart();
        let scale = |side: usize| d * f32::from(block[192 + 2 * run + side] as i8);
        let (half, run) = (run / 4, run % 4);
        let (low, high) = (&block[64 * half + 32 * (run % 2)..][..32], &block[128 + 32 * half..][..32]);
        let mut quants = [0; 32];
        for ((quant, l), h) in quants.iter_mut().zip(low).zip(high) {
            let q = ((l >> (4 * (run / 2))) & 15) | (((h >> (2 * run)) & 3) << 4);
            *quant = q as i8 - 32;
        }
        scaled(out, [scale(0), scale(1)], &quants);
    }
}
