//! Q2_0: 64 numbers of 2 bits and one scale.

use super::search::integer;
use super::{Codec, Words, encode_blocks, f16_at, magnitude, put_f16, reciprocal};
use crate::blocks::{Decode, Q2_0};

/// `d: f16, quants: [u8; 16]`; value = d * (q - 1). Four elements per byte, the first lowest.
pub(crate) const Q2_0: Codec = Codec { decode: Q2_0::decode, encode: Some(encode_q2_0), words: &[Words::new(0, 2, 1)] };

#[inline(always)]
pub(crate) fn q2_0(block: &[u8; 18], out: &mut [f32; 64]) {
    let d = f16_at(block, 0);
    for (out, byte) in out.as_chunks_mut::<4>().0.iter_mut().zip(&block[2..]) {
        for (i, out) in out.iter_mut().enumerate() {
            *out = d * (f32::from((byte >> (2 * i)) & 3) - 1.0);
        }
    }
}

#[inline(always)]
pub(crate) fn encode_q2_0(values: &[f32], importance: Option<&[f32]>, bytes: &mut [u8]) {
    encode_blocks(values, importance, bytes, |values: &[f32; 64], _, block: &mut [u8; 18]| {
        let d = magnitude(values);
        put_f16(block, 0, d);
        let inverse = reciprocal(d);
        for (values, byte) in values.as_chunks::<4>().0.iter().zip(&mut block[2..]) {
            let quant = |i: usize| integer((values[i] * inverse).round()).wrapping_add(1).clamp(0, 3) as u8;
            *byte = (0..4).fold(0, |byte, i| byte | (quant(i) << (2 * i)));
        }
    });
}
