//! Q8_0, and the formats of ggml's activations, Q8_1 and Q8_K: a scale and signed bytes. The sums that the latter two
//! carry for dot products say nothing new and are skipped.

use super::{Codec, Words, f16_at, magnitude, put_f16, reciprocal};
use crate::blocks::{Decode, Q8_0, Q8_1, Q8K};

/// `d: f16, quants: [i8; 32]`; value = d * q.
pub(crate) const Q8_0: Codec = Codec { decode: Q8_0::decode, encode: Some(encode_q8_0), words: &[Words::new(0, 2, 1)] };

#[inline(always)]
pub(crate) fn encode_q8_0(values: &[f32], _: Option<&[f32]>, bytes: &mut [u8]) {
    // No closure: with instructions of the caller's it would be a call.
    for (values, block) in values.as_chunks::<32>().0.iter().zip(bytes.as_chunks_mut::<34>().0) {
        let d = magnitude(values) / 127.0;
        put_f16(block, 0, d);
        let inverse = reciprocal(d);
        let mut quants = [0; 32];
        for i in 0..32 {
            let rounded = away(values[i] * inverse);
            // What has no room for an integer is 0, as its lowest byte is in C on x86-64.
            let integer = if rounded.abs() < 1e6 { rounded } else { 0.0 };
            quants[i] = (integer + 12_582_912.0).to_bits() as u8; // the sum's lowest bits are the integer's
        }
        block[2..].copy_from_slice(&quants);
    }
}

/// Rounds halves away from zero, as [`f32::round`] does, in vector code.
#[inline(always)]
fn away(x: f32) -> f32 {
    const BELOW_HALF: f32 = 0.5f32.next_down();
    (x + BELOW_HALF.copysign(x)).trunc()
}

#[inline(always)]
pub(crate) fn q8_0(block: &[u8; 34], out: &mut [f32; 32]) {
    scale(f16_at(block, 0), &block[2..], out);
}

/// `d: f16, sum: f16, quants: [i8; 32]`; value = d * q.
pub(crate) const Q8_1: Codec = Codec { decode: Q8_1::decode, encode: None, words: &[Words::new(0, 2, 2)] };

#[inline(always)]
pub(crate) fn q8_1(block: &[u8; 36], out: &mut [f32; 32]) {
    scale(f16_at(block, 0), &block[4..], out);
}

/// `d: f32, quants: [i8; 256], sums: [i16; 16]`; value = d * q.
pub(crate) const Q8_K: Codec =
    Codec { decode: Q8K::decode, encode: None, words: &[Words::new(0, 4, 1), Words::new(260, 2, 16)] };

#[inline(always)]
pub(crate) fn q8_k(block: &[u8; 292], out: &mut [f32; 256]) {
    let d = f32::from_le_bytes([block[0], block[1], block[2], block[3]]);
    scale(d, &block[4..260], out);
}

#[inline(always)]
fn scale(d: f32, quants: &[u8], out: &mut [f32]) {
    for (out, &q) in out.iter_mut().zip(quants) {
        *out = d * f32::from(q as i8);
    }
}

#[cfg(test)]
mod tests {
    use super::away;

    #[test]
    fn halves_go_away_from_zero_and_their_neighbours_to_the_nearest() {
        for whole in 0..1000 {
            let half = whole as f32 + 0.5;
            for x in [half, half.next_down(), half.next_up(), whole as f32, 1e-40, f32::INFINITY, 3e9] {
                for x in [x, -x] {
                    assert_eq!(away(x).to_bits(), x.round().to_bits(), "{x:e}");
                }
            }
        }
        assert!(away(f32::NAN).is_nan());
    }
}
