//! Formats whose blocks of 32 stand alone, each with its own scale: Q4_0 to Q8_0, IQ4_NL and MXFP4.
//!
//! Nibbles hold element `i` low and element `i + 16` high.

use std::arch::wasm32::*;

use candor_quant::Format;

use super::bits::{look_up, nibbles, word_at};
use super::format::{Eight, Quant, Range, Scales};
use super::half_table::HalfTable;
use super::registers::load;
use crate::array::Each;
use crate::kind::{Plain, Shifted};
use crate::weights::{FP4_VALUES, IQ4_VALUES, half_power};

/// Eight half-precision numbers `stride` bytes apart. A table of what they are takes as many instructions, and its place in caches.
#[inline(always)]
fn halves_at<const N: usize>(w: &[u8; N], halves: HalfTable, first: usize, stride: usize) -> Eight {
    let half = |j: usize| i16::from_le_bytes([w[first + j * stride], w[first + j * stride + 1]]);
    halves.widen(i16x8(half(0), half(1), half(2), half(3), half(4), half(5), half(6), half(7)))
}

#[inline(always)]
fn negated(values: Eight) -> Eight {
    values.each(|four| f32x4_neg(four))
}

/// Nibbles from `at + 4`, and above them the 32 fifth bits from `at`.
#[inline(always)]
fn five_bits<const N: usize>(w: &[u8; N], at: usize) -> [v128; 2] {
    let fifth = u32x4_splat(word_at(w, at));
    let bit = u64x2_splat(0x8040_2010_0804_0201);
    let above = |bytes: v128| v128_and(i8x16_eq(v128_and(bytes, bit), bit), u8x16_splat(16));
    let [low, high] = nibbles(load(w, at + 4));
    [
        v128_or(low, above(i8x16_shuffle::<0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1>(fifth, fifth))),
        v128_or(high, above(i8x16_shuffle::<2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3>(fifth, fifth))),
    ]
}

/// 4 bits less 8: d, 16 bytes.
pub enum Q4_0 {}

impl Quant<{ 8 * 18 }> for Q4_0 {
    const FORMAT: Format = Format::Q4_0;
    const RANGE: Range = Range::UpTo(15);
    const OFFSET: i8 = 8;
    type Kind = Plain;

    #[inline(always)]
    fn quants(w: &[u8; 8 * 18], block: usize) -> [v128; 2] {
        nibbles(load(w, block * 18 + 2))
    }

    #[inline(always)]
    fn scales(w: &[u8; 8 * 18], halves: HalfTable) -> Scales {
        Scales::plain(halves_at(w, halves, 0, 18))
    }
}

/// 4 bits and a minimum: d, m, 16 bytes.
pub enum Q4_1 {}

impl Quant<{ 8 * 20 }> for Q4_1 {
    const FORMAT: Format = Format::Q4_1;
    const RANGE: Range = Range::UpTo(15);
    const OFFSET: i8 = 0;
    type Kind = Shifted;

    #[inline(always)]
    fn quants(w: &[u8; 8 * 20], block: usize) -> [v128; 2] {
        nibbles(load(w, block * 20 + 4))
    }

    #[inline(always)]
    fn scales(w: &[u8; 8 * 20], halves: HalfTable) -> Scales {
        Scales::shifted(halves_at(w, halves, 0, 20), negated(halves_at(w, halves, 2, 20)))
    }
}

/// 5 bits less 16: d, 4 bytes of fifth bits, 16 bytes.
pub enum Q5_0 {}

impl Quant<{ 8 * 22 }> for Q5_0 {
    const FORMAT: Format = Format::Q5_0;
    const RANGE: Range = Range::UpTo(31);
    const OFFSET: i8 = 16;
    type Kind = Plain;

    #[inline(always)]
    fn quants(w: &[u8; 8 * 22], block: usize) -> [v128; 2] {
        five_bits(w, block * 22 + 2)
    }

    #[inline(always)]
    fn scales(w: &[u8; 8 * 22], halves: HalfTable) -> Scales {
        Scales::plain(halves_at(w, halves, 0, 22))
    }
}

/// 5 bits and a minimum: d, m, 4 bytes of fifth bits, 16 bytes.
pub enum Q5_1 {}

impl Quant<{ 8 * 24 }> for Q5_1 {
    const FORMAT: Format = Format::Q5_1;
    const RANGE: Range = Range::UpTo(31);
    const OFFSET: i8 = 0;
    type Kind = Shifted;

    #[inline(always)]
    fn quants(w: &[u8; 8 * 24], block: usize) -> [v128; 2] {
        five_bits(w, block * 24 + 4)
    }

    #[inline(always)]
    fn scales(w: &[u8; 8 * 24], halves: HalfTable) -> Scales {
        Scales::shifted(halves_at(w, halves, 0, 24), negated(halves_at(w, halves, 2, 24)))
    }
}

/// 8 bits: d, 32 bytes.
pub enum Q8_0 {}

impl Quant<{ 8 * 34 }> for Q8_0 {
    const FORMAT: Format = Format::Q8_0;
    const RANGE: Range = Range::Signed;
    const OFFSET: i8 = 0;
    type Kind = Plain;

    #[inline(always)]
    fn quants(w: &[u8; 8 * 34], block: usize) -> [v128; 2] {
        [load(w, block * 34 + 2), load(w, block * 34 + 18)]
    }

    #[inline(always)]
    fn scales(w: &[u8; 8 * 34], halves: HalfTable) -> Scales {
        Scales::plain(halves_at(w, halves, 0, 34))
    }
}

/// 4 bits into a table: d, 16 bytes.
pub enum Iq4Nl {}

impl Quant<{ 8 * 18 }> for Iq4Nl {
    const FORMAT: Format = Format::Iq4Nl;
    const RANGE: Range = Range::Signed;
    const OFFSET: i8 = 0;
    type Kind = Plain;

    #[inline(always)]
    fn quants(w: &[u8; 8 * 18], block: usize) -> [v128; 2] {
        look_up(&IQ4_VALUES, load(w, block * 18 + 2))
    }

    #[inline(always)]
    fn scales(w: &[u8; 8 * 18], halves: HalfTable) -> Scales {
        Scales::plain(halves_at(w, halves, 0, 18))
    }
}

/// 4-bit floats, raised so that none is negative: an exponent, 16 bytes.
pub enum Mxfp4 {}

/// What they are raised by.
const RAISED: i8 = 12;

/// The raised weights.
const RAISED_VALUES: [i8; 16] = {
    let mut values = FP4_VALUES;
    let mut i = 0;
    while i < 16 {
        values[i] += RAISED;
        i += 1;
    }
    values
};

impl Quant<{ 8 * 17 }> for Mxfp4 {
    const FORMAT: Format = Format::Mxfp4;
    const RANGE: Range = Range::UpTo(24);
    const OFFSET: i8 = RAISED;
    type Kind = Plain;

    #[inline(always)]
    fn quants(w: &[u8; 8 * 17], block: usize) -> [v128; 2] {
        look_up(&RAISED_VALUES, load(w, block * 17 + 1))
    }

    #[inline(always)]
    fn scales(w: &[u8; 8 * 17], _: HalfTable) -> Scales {
        let mut scales = [0.0; 8];
        for (j, scale) in scales.iter_mut().enumerate() {
            *scale = half_power(w[17 * j]);
        }
        Scales::plain([load(&scales, 0), load(&scales, 4)])
    }
}
