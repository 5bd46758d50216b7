//! Q3_K: 256 elements of 2 + 1 bits in 16 groups, each with a signed 6-bit scale.

use super::k_quants::pack_twos;
use super::search::{each, groups, in_a_row, moved, nearest, squares, sums, symmetric, weights};
use super::{Codec, Words, apart, encode_blocks, f16_at, nibble, put_f16, scaled};
use crate::blocks::{Decode, Q3K};

/// `high: [u8; 32], quants: [u8; 64], scales: [u8; 12], d: f16`; value = (d * (scale - 32)) * (q - 4 * !high).
///
/// Low bits as in Q2_K. Run r of 32 elements has its third bits at bit r of each byte of `high`, where a set bit
/// subtracts nothing.
pub(crate) const Q3_K: Codec =
    Codec { decode: Q3K::decode, encode: Some(encode_q3_k), words: &[Words::new(108, 2, 1)] };

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

#[inline(always)]
pub(crate) fn encode_q3_k(values: &[f32], importance: Option<&[f32]>, bytes: &mut [u8]) {
    encode_blocks(
        values,
        importance,
        bytes,
        |values: &[f32; 256], importance: Option<&[f32; 256]>, bytes: &mut [u8; 110]| {
            let x = groups::<16, 16>(values);
            let (d, numbers, kept) = match importance {
                None => {
                    let (found, quants) = moved(&x, 4);
                    let (d, numbers) = signed(&found);
                    (d, numbers, quants)
                }
                Some(importance) => {
                    let w = weights(&x, &groups(importance), 2.0 * squares(values) / 256.0);
                    let found = symmetric(&x, &w, 4);
                    let (scales, totals) = (found.scale.map(|scale| [scale]), sums(&w).map(|sum| [sum]));
                    let shared = symmetric(&scales, &totals, 32);
                    (shared.scale[0], shared.quants(&scales).map(|[number]| number as u8), found.quants(&x))
                }
            };
            for (j, byte) in bytes[96..104].iter_mut().enumerate() {
                *byte = (numbers[j] & 15) | (numbers[j + 8] << 4);
            }
            for (j, byte) in bytes[104..108].iter_mut().enumerate() {
                *byte = (0..4).fold(0, |byte, k| byte | ((numbers[j + 4 * k] >> 4) << (2 * k)));
            }
            put_f16(bytes, 108, d);
            let d = f16_at(bytes, 108);
            let scale = numbers.map(|number| d * (i32::from(number) - 32) as f32);
            let quants: [[i32; 16]; 16] = each(|i, lane| {
                let quant = 4 + nearest(x[i][lane] / scale[lane]).clamp(-4, 3);
                if scale[lane] == 0.0 { kept[i][lane] } else { quant }
            });
            let quants: [u8; 256] = in_a_row(&quants);
            let mut high = [0; 32];
            for (run, quants) in quants.as_chunks::<32>().0.iter().enumerate() {
                for j in 0..32 {
                    high[j] |= (quants[j] >> 2) << run;
                }
            }
            bytes[..32].copy_from_slice(&high);
            pack_twos(&quants.map(|quant| quant & 3), &mut bytes[32..96]);
        },
    );
}

/// Numbers from 0 to 63 for scales, raised by 32; the one of greatest magnitude gets 0. And what they are multiplied by.
#[inline(always)]
fn signed(scales: &[f32; 16]) -> (f32, [u8; 16]) {
    let extreme = scales.iter().fold(0f32, |extreme, &scale| if scale.abs() > extreme.abs() { scale } else { extreme });
    if extreme == 0.0 {
        return (0.0, [0; 16]);
    }
    let inverse = -32.0 / extreme;
    (1.0 / inverse, scales.map(|scale| ((nearest(inverse * scale) as i8).clamp(-32, 31) + 32) as u8))
}
