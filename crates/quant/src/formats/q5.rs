//! Q5_0 and Q5_1: as Q4, with the fifth bits of the 32 elements in a word of their own (bit j is element j's).
//!
//! ggml keeps that word as four bytes but reads it as one number, so it follows the byte order of the machine.

use super::search::{Steps, affine, groups, integer, squares, symmetric, weights};
use super::{Codec, Words, encode_blocks, extreme, f16_at, put_f16, range, reciprocal, u32_at};
use crate::blocks::{Decode, Q5_0, Q5_1};

/// `d: f16, high: u32, quants: [u8; 16]`; value = d * (q - 16).
pub(crate) const Q5_0: Codec = Codec {
    decode: Q5_0::decode,
    encode: Some(|values, importance, bytes| {
        let spread = squares(values) / values.len() as f32;
        encode_blocks(values, importance, bytes, |values: &[f32; 32], importance, block: &mut [u8; 22]| {
            if let Some(importance) = importance {
                let x = groups::<f32, 32>(values, 0);
                let found = symmetric(&x, &weights(&x, &groups(importance, 0), spread), 16);
                put_f16(block, 0, found.scale);
                return pack(&mut block[2..], |j| found.quant(values[j]) as u8);
            }
            let d = extreme(values) / -16.0;
            put_f16(block, 0, d);
            let inverse = reciprocal(d);
            pack(&mut block[2..], |j| (integer(values[j] * inverse + 16.5) as i8).min(31) as u8);
        });
    }),
    words: &[Words::new(0, 2, 1), Words::new(2, 4, 1)],
};

#[inline(always)]
pub(crate) fn q5_0(block: &[u8; 22], out: &mut [f32; 32]) {
    let (d, high) = (f16_at(block, 0), u32_at(block, 2));
    unpack(high, &block[6..], |j, q| out[j] = d * (q as i32 - 16) as f32);
}

/// `d: f16, m: f16, high: u32, quants: [u8; 16]`; value = d * q + m.
pub(crate) const Q5_1: Codec = Codec {
    decode: Q5_1::decode,
    encode: Some(|values, importance, bytes| {
        let spread = squares(values) / values.len() as f32;
        encode_blocks(values, importance, bytes, |values: &[f32; 32], importance, block: &mut [u8; 24]| {
            if let Some(importance) = importance {
                let x = groups::<f32, 32>(values, 0);
                let found = affine(&x, &weights(&x, &groups(importance, 0), spread), Steps::fine(31));
                put_f16(block, 0, found.scale);
                put_f16(block, 2, found.minimum);
                return pack(&mut block[4..], |j| found.quant(values[j]) as u8);
            }
            let (least, greatest) = range(values);
            let d = (greatest - least) / 31.0;
            put_f16(block, 0, d);
            put_f16(block, 2, least);
            let inverse = reciprocal(d);
            pack(&mut block[4..], |j| integer((values[j] - least) * inverse + 0.5) as u8);
        });
    }),
    words: &[Words::new(0, 2, 2), Words::new(4, 4, 1)],
};

#[inline(always)]
pub(crate) fn q5_1(block: &[u8; 24], out: &mut [f32; 32]) {
    let (d, m, high) = (f16_at(block, 0), f16_at(block, 2), u32_at(block, 4));
    unpack(high, &block[8..], |j, q| out[j] = d * q as f32 + m);
}

/// Calls `put` with each element's place and 5-bit number.
#[inline(always)]
fn unpack(high: u32, quants: &[u8], mut put: impl FnMut(usize, u32)) {
    for (j, q) in quants.iter().enumerate() {
        put(j, u32::from(q & 15) | (((high >> j) & 1) << 4));
    }
    for (j, q) in quants.iter().enumerate() {
        put(j + 16, u32::from(q >> 4) | (((high >> (j + 16)) & 1) << 4));
    }
}

/// Writes the high bits and then the low ones of the 5-bit numbers that `quant` gives.
#[inline(always)]
fn pack(block: &mut [u8], quant: impl Fn(usize) -> u8) {
    let (high, low) = block.split_at_mut(4);
    let mut bits = 0;
    for (j, low) in low.iter_mut().enumerate() {
        let (a, b) = (quant(j), quant(j + 16));
        *low = (a & 15) | (b << 4);
        bits |= (u32::from((a >> 4) & 1) << j) | (u32::from((b >> 4) & 1) << (j + 16));
    }
    high.copy_from_slice(&bits.to_le_bytes());
}
