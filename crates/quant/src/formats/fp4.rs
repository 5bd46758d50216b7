//! MXFP4 and NVFP4: elements are 4-bit floats (E2M1) that share a scale without a sign.
//!
//! ggml keeps twice the element's value in its table and half the scale, so both stay exact.

use super::search::integer;
use super::{Codec, apart, encode_blocks, magnitude};
use crate::blocks::{Decode, Mxfp4, Nvfp4};

/// Twice the value of each E2M1 number. The negative zero is a plain one, as in ggml.
const VALUES: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// `scale: e8m0, quants: [u8; 16]` laid out as in Q4_0; value = (2^(scale - 127) / 2) * VALUES\[q\].
/// Source: OCP Microscaling Formats 1.0. Its NaN scale (255) is 2^128 in ggml, and here.
pub(crate) const MXFP4: Codec = Codec { decode: Mxfp4::decode, encode: Some(encode_mxfp4), words: &[] };

#[inline(always)]
pub(crate) fn mxfp4(block: &[u8; 17], out: &mut [f32; 32]) {
    look_up(half_e8m0(block[0]), &block[1..], out)
}

/// `scales: [e4m3; 4], quants: [u8; 32]`; value = (scale / 2) * VALUES\[q\]. Four groups of 16 elements: 8 bytes, low
/// nibbles first. The NaN scale (127) is 0 in ggml, and here; the sign bit of a scale is ignored.
pub(crate) const NVFP4: Codec = Codec { decode: Nvfp4::decode, encode: Some(encode_nvfp4), words: &[] };

#[inline(always)]
pub(crate) fn nvfp4(block: &[u8; 36], out: &mut [f32; 64]) {
    for (group, out) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        apart();
        look_up(half_e4m3(block[group]), &block[4 + 8 * group..][..8], out);
    }
}

#[inline(always)]
fn look_up(scale: f32, quants: &[u8], out: &mut [f32]) {
    let (low, high) = out.split_at_mut(quants.len());
    for ((q, low), high) in quants.iter().zip(low).zip(high) {
        *low = scale * f32::from(VALUES[usize::from(q & 15)]);
        *high = scale * f32::from(VALUES[usize::from(q >> 4)]);
    }
}

/// Half of 2^(e - 127); the two smallest are subnormal.
fn half_e8m0(e: u8) -> f32 {
    f32::from_bits(if e < 2 { 0x0020_0000 << e } else { u32::from(e - 1) << 23 })
}

/// Half of an E4M3 number (bias 7), its sign bit ignored.
fn half_e4m3(byte: u8) -> f32 {
    if byte == 0x7f {
        return 0.0;
    }
    let (exponent, mantissa) = (u32::from(byte >> 3) & 15, f32::from(byte & 7));
    let power = |e: u32| f32::from_bits(e << 23); // 2^(e - 127)
    if exponent == 0 { mantissa * power(127 - 10) } else { (1.0 + mantissa / 8.0) * power(exponent + 127 - 8) }
}

#[inline(always)]
pub(crate) fn encode_mxfp4(values: &[f32], importance: Option<&[f32]>, bytes: &mut [u8]) {
    encode_blocks(values, importance, bytes, |values: &[f32; 32], _, block: &mut [u8; 17]| {
        let largest = magnitude(values);
        // The logarithm is rounded to f32: just below a power of two it is that of the power.
        let power = (f64::from(largest).log2() as f32).floor() - 2.0 + 127.0;
        block[0] = if largest > 0.0 { integer(power) as u8 } else { 0 };
        pack(half_e8m0(block[0]), values, &mut block[1..]);
    });
}

#[inline(always)]
pub(crate) fn encode_nvfp4(values: &[f32], importance: Option<&[f32]>, bytes: &mut [u8]) {
    encode_blocks(values, importance, bytes, |values: &[f32; 64], _, block: &mut [u8; 36]| {
        for (group, values) in values.as_chunks::<16>().0.iter().enumerate() {
            block[group] = e4m3(magnitude(values) / 6.0);
            let scale = half_e4m3(block[group]);
            pack(scale, values, &mut block[4 + 8 * group..][..8]);
        }
    });
}

/// Writes the number whose value is nearest to each element, the first of equals.
#[inline(always)]
fn pack(scale: f32, values: &[f32], quants: &mut [u8]) {
    let quant = |value: f32| {
        let (mut best, mut least) = (0, value.abs());
        for (quant, &of) in (0..16).zip(&VALUES) {
            let off = (f32::from(of) * scale - value).abs();
            (best, least) = if off < least { (quant, off) } else { (best, least) };
        }
        best
    };
    let (low, high) = values.split_at(quants.len());
    for ((byte, low), high) in quants.iter_mut().zip(low).zip(high) {
        *byte = quant(*low) | (quant(*high) << 4);
    }
}

/// Rounds what is above 0 to E4M3, halves up; at most 448. What isn't above 0 is 0.
#[inline(always)]
fn e4m3(x: f32) -> u8 {
    let x = if x > 448.0 { 448.0 } else { x };
    let exponent = (x.to_bits() >> 23) as i32 - 127 + 7;
    if exponent <= 0 || x.is_nan() {
        return (x * 512.0 + 0.5).clamp(0.0, 7.0) as u8;
    }
    // The mantissa's carry raises the exponent. All from 256 on is the greatest number, as in ggml.
    let rounded = ((x.to_bits() >> 19) - ((127 - 7) << 4)).div_ceil(2) as u8;
    if rounded < 0x78 { rounded } else { 0x7e }
}
