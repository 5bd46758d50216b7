//! IQ4_NL and IQ4_XS: 4-bit numbers into a fixed table of 16 unevenly spaced values.

use super::search::{NOTHING, each, groups, in_a_row, largest, nearest, squares, weights};
use super::{Codec, Words, apart, encode_blocks, f16_at, nibble, put_f16, u16_at};
use crate::blocks::{Decode, Iq4Nl, Iq4Xs};

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
    Codec { decode: Iq4Xs::decode, encode: Some(encode_iq4_xs), words: &[Words::new(0, 2, 2)] };

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
    encode_blocks(
        values,
        importance,
        bytes,
        |values: &[f32; 32], importance: Option<&[f32; 32]>, bytes: &mut [u8; 18]| {
            let x = groups::<1, 32>(values);
            let [scale] = scales(&x, importance.map(|all| groups(all)).as_ref(), 2.0 / 32.0 * squares(values));
            put_f16(bytes, 0, scale);
            let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
            for j in 0..16 {
                let quant = |value: f32| place(inverse * value).0 as u8;
                bytes[2 + j] = quant(values[j]) | (quant(values[j + 16]) << 4);
            }
        },
    );
}

#[inline(always)]
pub(crate) fn encode_iq4_xs(values: &[f32], importance: Option<&[f32]>, bytes: &mut [u8]) {
    encode_blocks(
        values,
        importance,
        bytes,
        |values: &[f32; 256], importance: Option<&[f32; 256]>, bytes: &mut [u8; 136]| {
            let x = groups::<8, 32>(values);
            let scales = scales(&x, importance.map(|all| groups(all)).as_ref(), 2.0 / 256.0 * squares(values));
            let extreme =
                scales.iter().fold(0f32, |extreme, &scale| if scale.abs() > extreme.abs() { scale } else { extreme });
            let d = -extreme / 32.0;
            put_f16(bytes, 0, d);
            let inverse = if d == 0.0 { 0.0 } else { 1.0 / d };
            let numbers = scales.map(|scale| nearest(inverse * scale).clamp(-32, 31));
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
            let quants: [u8; 256] = in_a_row::<8, 32, 256>(&each(|i, lane| place(inverses[lane] * x[i][lane]).0));
            for (quants, bytes) in quants.as_chunks::<32>().0.iter().zip(bytes[8..].as_chunks_mut::<16>().0) {
                for j in 0..16 {
                    bytes[j] = quants[j] | (quants[j + 16] << 4);
                }
            }
        },
    );
}

/// Place and value of the entry of [`VALUES`] nearest to `x`, the upper of two equally near.
///
/// The middle of two entries decides as their distances do: near a middle no difference is rounded.
#[inline(always)]
fn place(x: f32) -> (i32, f32) {
    let (mut place, mut value) = (0, f32::from(VALUES[0]));
    for pair in VALUES.windows(2) {
        let (low, high) = (f32::from(pair[0]), f32::from(pair[1]));
        let below = x < (low + high) / 2.0;
        place += if below { 0 } else { 1 };
        value += if below { 0.0 } else { high - low };
    }
    (place, value)
}

/// The scale of each group: tries 16 around the one that makes the largest element the first value, by weighted squared error.
#[inline(always)]
fn scales<const L: usize>(x: &[[f32; L]; 32], importance: Option<&[[f32; L]; 32]>, spread: f32) -> [f32; L] {
    let w = match importance {
        Some(importance) => weights(x, importance, spread),
        None => each(|i, lane| x[i][lane] * x[i][lane]),
    };
    let (magnitude, value) = largest(x);
    let (mut scale, mut best) = ([0.0; L], [0.0; L]);
    for step in (0..1).map(|_| None).chain((-7..8).map(Some)) {
        let mut factor = [0.0; L];
        for lane in 0..L {
            factor[lane] = match step {
                None => 1.0 / (-value[lane] / f32::from(VALUES[0])),
                Some(step) => (step + i32::from(VALUES[0])) as f32 / value[lane],
            };
        }
        let (mut sum_xq, mut sum_q2) = ([0.0; L], [0.0; L]);
        for i in 0..32 {
            for lane in 0..L {
                let q = place(factor[lane] * x[i][lane]).1;
                sum_xq[lane] += w[i][lane] * q * x[i][lane];
                sum_q2[lane] += w[i][lane] * q * q;
            }
        }
        for lane in 0..L {
            let some = sum_q2[lane] > 0.0;
            let found = if some { sum_xq[lane] / sum_q2[lane] } else { 0.0 };
            let better = step.is_none() || (some && sum_xq[lane] * sum_xq[lane] > best[lane] * sum_q2[lane]);
            scale[lane] = if better { found } else { scale[lane] };
            best[lane] = if better { found * sum_xq[lane] } else { best[lane] };
        }
    }
    for lane in 0..L {
        scale[lane] = if magnitude[lane] < NOTHING { 0.0 } else { scale[lane] };
    }
    scale
}
