//! IQ4_NL and IQ4_XS: 4-bit numbers into a fixed table of 16 unevenly spaced values.

use super::search::{self, NOTHING, extreme_scale, groups, largest, nearest, put, squared, squares, weights};
use super::{Codec, Words, apart, encode_blocks, f16_at, importance_of, nibble, put_f16, u16_at};
use crate::blocks::{Decode, Iq4Nl, Iq4Xs};
use crate::lanes::Lanes;

/// The values, denser around zero as weights are.
const VALUES: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// `d: f16, quants: [u8; 16]` laid out as in Q4_0; value = d * VALUES\[q\].
pub(crate) const IQ4_NL: Codec =
    Codec { decode: Iq4Nl::decode, encode: Some(encode_iq4_nl), words: &[Words::new(0, 2, 1)] };

#[inline(always)]
pub(crate) fn iq4_nl(block: &[u8; 18], out: &mut [f32; 32]) {
    look_up(f16_at(block, 0), &block[2..], out);
}

/// `d: f16, scales_high: u16, scales_low: [u8; 4], quants: [u8; 128]`; value = (d * (scale - 32)) * VALUES\[q\].
///
/// Eight groups of 32, each laid out as an IQ4_NL block; scales have 4 low bits and 2 high ones.
pub(crate) const IQ4_XS: Codec =
    Codec { decode: Iq4Xs::decode, encode: Some(encode_iq4_xs::<f32>), words: &[Words::new(0, 2, 2)] };

#[inline(always)]
pub(crate) fn iq4_xs(block: &[u8; 136], out: &mut [f32; 256]) {
    let (d, high) = (f16_at(block, 0), u16_at(block, 2));
    for (group, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        apart();
        let scale = u16::from(nibble(&block[4..8], group)) | (((high >> (2 * group)) & 3) << 4);
        look_up(d * (f32::from(scale) - 32.0), &block[8 + 16 * group..][..16], out);
    }
}

#[inline(always)]
fn look_up(scale: f32, quants: &[u8], out: &mut [f32; 32]) {
    let (low, high) = out.split_at_mut(16);
    for ((q, low), high) in quants.iter().zip(low).zip(high) {
        *low = scale * f32::from(VALUES[usize::from(q & 15)]);
        *high = scale * f32::from(VALUES[usize::from(q >> 4)]);
    }
}

#[inline(always)]
pub(crate) fn encode_iq4_nl(values: &[f32], importance: Option<&[f32]>, bytes: &mut [u8]) {
    encode_blocks(values, importance, bytes, |values: &[f32; 32], importance, bytes: &mut [u8; 18]| {
        let scale = scales(values, importance, 2.0 / 32.0 * squares(values));
        put_f16(bytes, 0, scale);
        let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
        for j in 0..16 {
            let quant = |value: f32| number(inverse * value).0 as u8;
            bytes[2 + j] = quant(values[j]) | (quant(values[j + 16]) << 4);
        }
    });
}

#[inline(always)]
pub(crate) fn encode_iq4_xs<V: Lanes>(values: &[f32], importance: Option<&[f32]>, bytes: &mut [u8]) {
    // No closure: with instructions of the caller's it would be a call, and so would all that it computes.
    let blocks = values.as_chunks().0.iter().zip(bytes.as_chunks_mut().0);
    for (i, (values, bytes)) in blocks.enumerate() {
        block::<V>(values, importance_of(importance, i), bytes);
    }
}

#[inline(always)]
fn block<V: Lanes>(values: &[f32; 256], importance: Option<&[f32; 256]>, bytes: &mut [u8; 136]) {
    let spread = 2.0 / 256.0 * squares(values);
    let mut found = [0.0; 8];
    for first in (0..8).step_by(V::COUNT) {
        let x = groups::<V, 32>(values, first);
        let importance = importance.map(|importance| groups(importance, first));
        search::place(&mut found, first, scales(&x, importance.as_ref(), spread));
    }
    let d = -extreme_scale(&found) / 32.0;
    put_f16(bytes, 0, d);
    let inverse = if d == 0.0 { 0.0 } else { 1.0 / d };
    let numbers = found.map(|scale| nearest(inverse * scale).clamp(-32, 31));
    let raised = numbers.map(|number| (number + 32) as u8);
    let high = (0..8).fold(0, |high, group| high | (u16::from(raised[group] >> 4) << (2 * group)));
    bytes[2..4].copy_from_slice(&high.to_le_bytes());
    for pair in 0..4 {
        bytes[4 + pair] = (raised[2 * pair] & 15) | (raised[2 * pair + 1] << 4);
    }
    let inverses = numbers.map(|number| {
        let scale = d * number as f32;
        if scale == 0.0 { 0.0 } else { 1.0 / scale }
    });
    let mut quants = [0; 256];
    for first in (0..8).step_by(V::COUNT) {
        let x = groups::<V, 32>(values, first);
        let inverse = V::each(|lane| inverses[first + lane]);
        let mut numbers = x;
        for x in &mut numbers {
            *x = number(inverse * *x).0;
        }
        put(&mut quants, first, &numbers);
    }
    for (quants, bytes) in quants.as_chunks::<32>().0.iter().zip(bytes[8..].as_chunks_mut::<16>().0) {
        for j in 0..16 {
            bytes[j] = quants[j] | (quants[j + 16] << 4);
        }
    }
}

/// Number and value of the entry of [`VALUES`] nearest to `x`, the upper of two equally near.
///
/// The middle of two entries decides as their distances do: near a middle no difference is rounded.
#[inline(always)]
fn number<V: Lanes>(x: V) -> (V, V) {
    let (mut number, mut value) = (V::all(0.0), V::all(f32::from(VALUES[0])));
    for (i, pair) in VALUES.windows(2).enumerate() {
        let (low, high) = (f32::from(pair[0]), f32::from(pair[1]));
        let below = x.less(V::all((low + high) / 2.0));
        number = V::select(below, number, V::all((i + 1) as f32));
        value = V::select(below, value, V::all(high));
    }
    (number, value)
}

/// The scale of each group: tries 16 around the one that makes the largest element the first value, by weighted squared error.
#[inline(always)]
fn scales<V: Lanes>(x: &[V; 32], importance: Option<&[V; 32]>, spread: f32) -> V {
    let w = match importance {
        Some(importance) => weights(x, importance, spread),
        None => squared(x),
    };
    let (magnitude, value) = largest(x);
    let zero = V::all(0.0);
    let first = V::all(f32::from(VALUES[0]));
    let (sum_xq, sum_q2) = sums(x, &w, V::all(1.0) / ((zero - value) / first));
    let mut scale = V::select(zero.less(sum_q2), sum_xq / sum_q2, zero);
    let mut best = scale * sum_xq;
    for step in -7..8 {
        let (sum_xq, sum_q2) = sums(x, &w, (V::all(step as f32) + first) / value);
        let better = V::both(zero.less(sum_q2), (best * sum_q2).less(sum_xq * sum_xq));
        let found = sum_xq / sum_q2;
        scale = V::select(better, found, scale);
        best = V::select(better, found * sum_xq, best);
    }
    V::select(magnitude.less(V::all(NOTHING)), zero, scale)
}

/// Weighted sums of elements times values, and of squares of values.
#[inline(always)]
fn sums<V: Lanes>(x: &[V; 32], w: &[V; 32], factor: V) -> (V, V) {
    let (mut sum_xq, mut sum_q2) = (V::all(0.0), V::all(0.0));
    for i in 0..32 {
        let q = number(factor * x[i]).1;
        sum_xq = sum_xq + w[i] * q * x[i];
        sum_q2 = sum_q2 + w[i] * q * q;
    }
    (sum_xq, sum_q2)
}
