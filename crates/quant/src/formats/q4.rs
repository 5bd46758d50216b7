//! Q4_0 and Q4_1: 32 elements of 4 bits; byte j holds element j (low) and element j + 16 (high).

use super::search::{Steps, affine, groups, integer, squares, symmetric, weights};
use super::{Codec, Words, encode_blocks, extreme, f16_at, put_f16, range, reciprocal};
use crate::blocks::{Decode, Q4_0, Q4_1};

/// `d: f16, quants: [u8; 16]`; value = d * (q - 8).
pub(crate) const Q4_0: Codec = Codec {
    decode: Q4_0::decode,
    encode: Some(|values, importance, bytes| {
        let spread = squares(values) / values.len() as f32;
        encode_blocks(values, importance, bytes, |values: &[f32; 32], importance, block: &mut [u8; 18]| {
            if let Some(importance) = importance {
                let x = groups::<f32, 32>(values, 0);
                let found = symmetric(&x, &weights(&x, &groups(importance, 0), spread), 8);
                put_f16(block, 0, found.scale);
                return pack(&mut block[2..], |j| found.quant(values[j]) as u8);
            }
            // The value of greatest magnitude becomes -8 exactly: the side that has one step more.
            let d = extreme(values) / -8.0;
            put_f16(block, 0, d);
            let inverse = reciprocal(d);
            pack(&mut block[2..], |j| (integer(values[j] * inverse + 8.5) as i8).min(15) as u8);
        });
    }),
    words: &[Words::new(0, 2, 1)],
};

#[inline(always)]
pub(crate) fn q4_0(block: &[u8; 18], out: &mut [f32; 32]) {
    let d = f16_at(block, 0);
    let (low, high) = out.split_at_mut(16);
    for ((q, low), high) in block[2..].iter().zip(low).zip(high) {
        *low = d * (i32::from(q & 15) - 8) as f32;
        *high = d * (i32::from(q >> 4) - 8) as f32;
    }
}

/// `d: f16, m: f16, quants: [u8; 16]`; value = d * q + m.
pub(crate) const Q4_1: Codec = Codec {
    decode: Q4_1::decode,
    encode: Some(|values, importance, bytes| {
        let spread = squares(values) / values.len() as f32;
        encode_blocks(values, importance, bytes, |values: &[f32; 32], importance, block: &mut [u8; 20]| {
            if let Some(importance) = importance {
                let x = groups::<f32, 32>(values, 0);
                let found = affine(&x, &weights(&x, &groups(importance, 0), spread), Steps::fine(15));
                put_f16(block, 0, found.scale);
                put_f16(block, 2, found.minimum);
                return pack(&mut block[4..], |j| found.quant(values[j]) as u8);
            }
            let (least, greatest) = range(values);
            let d = (greatest - least) / 15.0;
            put_f16(block, 0, d);
            put_f16(block, 2, least);
            let inverse = reciprocal(d);
            pack(&mut block[4..], |j| (integer((values[j] - least) * inverse + 0.5) as i8).min(15) as u8);
        });
    }),
    words: &[Words::new(0, 2, 2)],
};

#[inline(always)]
pub(crate) fn q4_1(block: &[u8; 20], out: &mut [f32; 32]) {
    let (d, m) = (f16_at(block, 0), f16_at(block, 2));
    let (low, high) = out.split_at_mut(16);
    for ((q, low), high) in block[4..].iter().zip(low).zip(high) {
        *low = d * f32::from(q & 15) + m;
        *high = d * f32::from(q >> 4) + m;
    }
}

/// Writes the 4-bit numbers that `quant` gives.
#[inline(always)]
fn pack(block: &mut [u8], quant: impl Fn(usize) -> u8) {
    for (j, byte) in block.iter_mut().enumerate() {
        *byte = quant(j) | (quant(j + 16) << 4);
    }
}
