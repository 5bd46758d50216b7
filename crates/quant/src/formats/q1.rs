//! Q1_0: 128 signs and one scale.

use super::{Codec, Words, encode_blocks, f16_at, put_f16};
use crate::blocks::{Decode, Q1_0};

/// `d: f16, signs: [u8; 16]`; value = d where the bit is set, else -d.
pub(crate) const Q1_0: Codec = Codec { decode: Q1_0::decode, encode: Some(encode_q1_0), words: &[Words::new(0, 2, 1)] };

#[inline(always)]
pub(crate) fn q1_0(block: &[u8; 18], out: &mut [f32; 128]) {
    let d = f16_at(block, 0);
    for (out, byte) in out.as_chunks_mut::<8>().0.iter_mut().zip(&block[2..]) {
        for (bit, out) in out.iter_mut().enumerate() {
            *out = if (byte >> bit) & 1 == 1 { d } else { -d };
        }
    }
}

#[inline(always)]
pub(crate) fn encode_q1_0(values: &[f32], importance: Option<&[f32]>, bytes: &mut [u8]) {
    encode_blocks(values, importance, bytes, |values: &[f32; 128], _, block: &mut [u8; 18]| {
        put_f16(block, 0, values.iter().fold(0.0, |sum, value| sum + value.abs()) / 128.0);
        for (values, byte) in values.as_chunks::<8>().0.iter().zip(&mut block[2..]) {
            *byte = (0..8).fold(0, |byte, bit| byte | (u8::from(values[bit] >= 0.0) << bit));
        }
    });
}
