//! Q3_K: 256 elements of 2 + 1 bits in 16 groups, each with a signed 6-bit scale.

use super::k_quants::pack_twos;
use super::search::{extreme_scale, groups, moved, nearest, place, put, squares, sum, symmetric, weights};
use super::{Codec, Words, apart, f16_at, importance_of, nibble, put_f16, scaled};
use crate::blocks::{Decode, Q3K};
use crate::lanes::Lanes;

/// `high: [u8; 32], quants: [u8; 64], scales: [u8; 12], d: f16`; value = (d * (scale - 32)) * (q - 4 * !high).
///
/// Low bits as in Q2_K. Run r of 32 elements has its third bits at bit r of each byte of `high`, where a set bit
/// subtracts nothing.
pub(crate) const Q3_K: Codec =
    Codec { decode: Q3K::decode, encode: Some(encode_q3_k::<f32>), words: &[Words::new(108, 2, 1)] };

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
pub(crate) fn encode_q3_k<V: Lanes>(values: &[f32], importance: Option<&[f32]>, bytes: &mut [u8]) {
    // No closure: with instructions of the caller's it would be a call, and so would all that it computes.
    let blocks = values.as_chunks().0.iter().zip(bytes.as_chunks_mut().0);
    for (i, (values, bytes)) in blocks.enumerate() {
        block::<V>(values, importance_of(importance, i), bytes);
    }
}

#[inline(always)]
fn block<V: Lanes>(values: &[f32; 256], importance: Option<&[f32; 256]>, bytes: &mut [u8; 110]) {
    let (mut scales, mut totals, mut quants) = ([0.0; 16], [0.0; 16], [0; 256]);
    let spread = importance.map_or(0.0, |_| 2.0 * squares(values) / 256.0);
    for first in (0..16).step_by(V::COUNT) {
        let x = groups::<V, 16>(values, first);
        match importance {
            None => {
                let (scale, kept) = moved(&x, 4);
                place(&mut scales, first, scale);
                put(&mut quants, first, &kept);
            }
            Some(importance) => {
                let w = weights(&x, &groups(importance, first), spread);
                let found = symmetric(&x, &w, 4);
                place(&mut scales, first, found.scale);
                place(&mut totals, first, sum(&w));
                let mut kept = x;
                for kept in &mut kept {
                    *kept = found.quant(*kept);
                }
                put(&mut quants, first, &kept);
            }
        }
    }
    let (d, numbers) = match importance {
        None => signed(&scales),
        Some(_) => {
            let shared = symmetric(&scales, &totals, 32);
            (shared.scale, scales.map(|scale| shared.quant(scale) as u8))
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
    // The quants that go with the scales as they are stored; where these are nothing, those of the search.
    let stored = numbers.map(|number| d * (i32::from(number) - 32) as f32);
    let mut exact = [0; 256];
    for first in (0..16).step_by(V::COUNT) {
        let mut x = groups::<V, 16>(values, first);
        let scale = V::each(|lane| stored[first + lane]);
        for x in &mut x {
            *x = V::all(4.0) + (*x / scale).nearest().between(-4, 3);
        }
        put(&mut exact, first, &x);
    }
    for (scale, (quants, exact)) in
        stored.iter().zip(quants.as_chunks_mut::<16>().0.iter_mut().zip(exact.as_chunks().0))
    {
        *quants = if *scale == 0.0 { *quants } else { *exact };
    }
    let mut high = [0; 32];
    for (run, quants) in quants.as_chunks::<32>().0.iter().enumerate() {
        for j in 0..32 {
            high[j] |= (quants[j] >> 2) << run;
        }
    }
    bytes[..32].copy_from_slice(&high);
    pack_twos(&quants.map(|quant| quant & 3), &mut bytes[32..96]);
}

/// Numbers from 0 to 63 for scales, raised by 32; the one of greatest magnitude gets 0. And what they are multiplied by.
#[inline(always)]
fn signed(scales: &[f32; 16]) -> (f32, [u8; 16]) {
    let extreme = extreme_scale(scales);
    if extreme == 0.0 {
        return (0.0, [0; 16]);
    }
    let inverse = -32.0 / extreme;
    (1.0 / inverse, scales.map(|scale| ((nearest(inverse * scale) as i8).clamp(-32, 31) + 32) as u8))
}
