//! Q4_K: 256 elements of 4 bits in 8 groups, each with a 6-bit scale and a 6-bit minimum. Q5_K shares the scales.

use super::k_quants::{Block, Rules, block, pack_fours};
use super::search::Steps;
use super::{Codec, Words, apart, f16_at, importance_of};
use crate::blocks::{Decode, Q4K};
use crate::lanes::Lanes;

/// `d: f16, dmin: f16, scales: [u8; 12], quants: [u8; 128]`; value = (d * scale) * q - dmin * minimum.
///
/// 32 bytes of quants hold two groups: the even one low, the odd one high.
pub(crate) const Q4_K: Codec =
    Codec { decode: Q4K::decode, encode: Some(encode_q4_k::<f32>), words: &[Words::new(0, 2, 2)] };

#[inline(always)]
pub(crate) fn q4_k(block: &[u8; 144], out: &mut [f32; 256]) {
    let groups = scales_and_minima(block);
    for (pair, out) in out.as_chunks_mut::<64>().0.iter_mut().enumerate() {
        apart();
        let [(scale0, minimum0), (scale1, minimum1)] = [groups[2 * pair], groups[2 * pair + 1]];
        let (even, odd) = out.split_at_mut(32);
        for ((q, even), odd) in block[16 + 32 * pair..][..32].iter().zip(even).zip(odd) {
            *even = scale0 * f32::from(q & 15) - minimum0;
            *odd = scale1 * f32::from(q >> 4) - minimum1;
        }
    }
}

const RULES: Rules = Rules {
    levels: 15,
    scales: 63,
    steps: Steps { levels: 15, from: -1.0, by: 0.1, count: 20, distance: false, clamped: false },
    even: true,
    spread: 2.0,
};

#[inline(always)]
pub(crate) fn encode_q4_k<V: Lanes>(values: &[f32], importance: Option<&[f32]>, bytes: &mut [u8]) {
    // No closure: with instructions of the caller's it would be a call, and so would all that it computes.
    let blocks = values.as_chunks().0.iter().zip(bytes.as_chunks_mut::<144>().0);
    for (i, (values, bytes)) in blocks.enumerate() {
        let found = block::<V, 8, 32>(values, importance_of(importance, i), RULES);
        put_scales(&found, bytes);
        pack_fours(&found.quants, &mut bytes[16..]);
    }
}

/// What [`scales_and_minima`] reads.
#[inline(always)]
pub(super) fn put_scales(found: &Block<8>, bytes: &mut [u8]) {
    bytes[..2].copy_from_slice(&found.d.to_le_bytes());
    bytes[2..4].copy_from_slice(&found.dmin.to_le_bytes());
    for j in 0..4 {
        let [scales, minima] = [found.scales, found.minima].map(|all| (all[j], all[j + 4]));
        bytes[4 + j] = scales.0 | ((scales.1 >> 4) << 6);
        bytes[8 + j] = minima.0 | ((minima.1 >> 4) << 6);
        bytes[12 + j] = (scales.1 & 15) | (minima.1 << 4);
    }
}

/// Scale and minimum of each group, times d and dmin: the first 16 bytes of a Q4_K or Q5_K block.
///
/// The 6-bit numbers of groups 0-3 fill the low bits of `scales` 0-3 (scale) and 4-7 (minimum). Groups 4-7 have their
/// low nibbles in 8-11 (scale low, minimum high) and their upper two bits on top of 0-3 and 4-7.
pub(super) fn scales_and_minima(block: &[u8]) -> [(f32, f32); 8] {
    let (d, dmin) = (f16_at(block, 0), f16_at(block, 2));
    let packed = &block[4..16];
    std::array::from_fn(|group| {
        let j = group % 4;
        let (scale, minimum) = if group < 4 {
            (packed[j] & 63, packed[4 + j] & 63)
        } else {
            let low = packed[8 + j];
            ((low & 15) | ((packed[j] >> 6) << 4), (low >> 4) | ((packed[4 + j] >> 6) << 4))
        };
        (d * f32::from(scale), dmin * f32::from(minimum))
    })
}
