//! Q6_K: 256 elements of 4 + 2 bits in 16 groups, each with an 8-bit scale.

use super::search::{NOTHING, Symmetric, extreme_scale, groups, nearest, place, put, squared, symmetric};
use super::{Codec, Words, apart, f16_at, importance_of, put_f16, scaled};
use crate::blocks::{Decode, Q6K};
use crate::lanes::Lanes;

/// `low: [u8; 128], high: [u8; 64], scales: [i8; 16], d: f16`; value = (d * scale) * (q - 32).
///
/// Two halves of 128 elements, each in four runs of 32. Runs 0 and 1 are the low nibbles of the half's first and
/// second 32 bytes of `low`, runs 2 and 3 their high nibbles; run k has its upper bits at bit 2k of the half's bytes
/// of `high`.
pub(crate) const Q6_K: Codec =
    Codec { decode: Q6K::decode, encode: Some(encode_q6_k::<f32>), words: &[Words::new(208, 2, 1)] };

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

#[inline(always)]
pub(crate) fn encode_q6_k<V: Lanes>(values: &[f32], importance: Option<&[f32]>, bytes: &mut [u8]) {
    // No closure: with instructions of the caller's it would be a call, and so would all that it computes.
    let blocks = values.as_chunks().0.iter().zip(bytes.as_chunks_mut().0);
    for (i, (values, bytes)) in blocks.enumerate() {
        block::<V>(values, importance_of(importance, i), bytes);
    }
}

#[inline(always)]
fn block<V: Lanes>(values: &[f32; 256], importance: Option<&[f32; 256]>, bytes: &mut [u8; 210]) {
    let mut scales = [0.0; 16];
    for first in (0..16).step_by(V::COUNT) {
        place(&mut scales, first, search::<V>(&groups(values, first), importance, first).scale);
    }
    let extreme = extreme_scale(&scales);
    if extreme.abs() < NOTHING {
        return bytes.fill(0);
    }
    let inverse = -128.0 / extreme;
    put_f16(bytes, 208, 1.0 / inverse);
    let d = f16_at(bytes, 208);
    let numbers = scales.map(|scale| nearest(inverse * scale).min(127) as i8);
    for (byte, number) in bytes[192..208].iter_mut().zip(numbers) {
        *byte = number as u8;
    }
    // The quants that go with the scales as they are stored; where these are nothing, those of the search.
    let stored = numbers.map(|number| d * f32::from(number));
    let mut quants = [0; 256];
    for first in (0..16).step_by(V::COUNT) {
        let x = groups::<V, 16>(values, first);
        let scale = V::each(|lane| stored[first + lane]);
        let mut exact = x;
        for exact in &mut exact {
            *exact = V::all(32.0) + (*exact / scale).nearest().between(-32, 31);
        }
        if stored[first..first + V::COUNT].contains(&0.0) {
            let found = search(&x, importance, first);
            let some = V::all(0.0).less(scale.abs());
            for i in 0..16 {
                exact[i] = V::select(some, exact[i], found.quant(x[i]));
            }
        }
        put(&mut quants, first, &exact);
    }
    for (half, q) in quants.as_chunks::<128>().0.iter().enumerate() {
        for j in 0..32 {
            bytes[64 * half + j] = (q[j] & 15) | (q[j + 64] << 4);
            bytes[64 * half + 32 + j] = (q[j + 32] & 15) | (q[j + 96] << 4);
            let high = |run: usize| q[j + 32 * run] >> 4 << (2 * run);
            bytes[128 + 32 * half + j] = high(0) | high(1) | high(2) | high(3);
        }
    }
}

#[inline(always)]
fn search<V: Lanes>(x: &[V; 16], importance: Option<&[f32; 256]>, first: usize) -> Symmetric<V> {
    match importance {
        None => symmetric(x, &squared(x), 32),
        Some(importance) => symmetric(x, &groups(importance, first), 32),
    }
}
