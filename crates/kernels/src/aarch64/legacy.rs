//! Formats whose blocks of 32 stand alone, each with its own scale: Q4_0 to Q8_0, IQ4_NL and MXFP4.
//!
//! Nibbles hold element `i` low and element `i + 16` high.

use std::arch::aarch64::*;

use candor_quant::Format;

use super::bits::{join, look_up, nibbles, signed, word_at};
use super::format::{Eight, Quant, Scales};
use super::instructions::scalar;
use super::registers::{load_f32, load_u8};
use crate::array::Each;
use crate::kind::{Plain, Shifted};
use crate::weights::{FP4_VALUES, IQ4_VALUES, half_power};

/// Eight half-precision numbers `stride` bytes apart.
#[inline]
#[target_feature(enable = "neon")]
fn halves_at<const N: usize>(w: &[u8; N], first: usize, stride: usize) -> Eight {
    let (low, high) = (four_halves(w, first, stride), four_halves(w, first + 4 * stride, stride));
    [vcvt_f32_f16(vcreate_f16(low)), vcvt_f32_f16(vcreate_f16(high))]
}

/// Four of them, put together in a general register, which leaves the vectors' pipes to products: loads of lanes take both.
#[inline(always)]
fn four_halves<const N: usize>(w: &[u8; N], first: usize, stride: usize) -> u64 {
    let mut halves = 0;
    for i in 0..4 {
        let at = first + i * stride;
        halves |= u64::from(u16::from_le_bytes([w[at], w[at + 1]])) << (16 * i);
    }
    scalar(halves)
}

#[inline]
#[target_feature(enable = "neon")]
fn negated(values: Eight) -> Eight {
    values.each(|four| vnegq_f32(four))
}

/// Nibbles from `at + 4` less 16 where their fifth bit is clear; the 32 fifth bits are at `at`.
#[inline]
#[target_feature(enable = "neon")]
fn five_bits<const N: usize>(w: &[u8; N], at: usize) -> [int8x16_t; 2] {
    let clear = vreinterpretq_u8_u32(vdupq_n_u32(!word_at(w, at)));
    let bit = vreinterpretq_u8_u64(vdupq_n_u64(0x8040_2010_0804_0201));
    let is_clear = |byte: u8| vtstq_u8(vqtbl1q_u8(clear, vcombine_u8(vdup_n_u8(byte), vdup_n_u8(byte + 1))), bit);
    let bytes = load_u8(w, at + 4);
    // All ones above a nibble are -16.
    signed([join::<4>(bytes, is_clear(0)), join::<4>(vshrq_n_u8::<4>(bytes), is_clear(2))])
}

/// 4 bits less 8: d, 16 bytes.
pub struct Q4_0;

impl Quant<{ 8 * 18 }> for Q4_0 {
    const FORMAT: Format = Format::Q4_0;
    const OFFSET: i8 = 8;
    type Kind = Plain;

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn quants(w: &[u8; 8 * 18], block: usize) -> [int8x16_t; 2] {
        signed(nibbles(load_u8(w, block * 18 + 2)))
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn scales(w: &[u8; 8 * 18]) -> Scales {
        Scales::plain(halves_at(w, 0, 18))
    }
}

/// 4 bits and a minimum: d, m, 16 bytes.
pub struct Q4_1;

impl Quant<{ 8 * 20 }> for Q4_1 {
    const FORMAT: Format = Format::Q4_1;
    const OFFSET: i8 = 0;
    type Kind = Shifted;

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn quants(w: &[u8; 8 * 20], block: usize) -> [int8x16_t; 2] {
        signed(nibbles(load_u8(w, block * 20 + 4)))
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn scales(w: &[u8; 8 * 20]) -> Scales {
        Scales::shifted(halves_at(w, 0, 20), negated(halves_at(w, 2, 20)))
    }
}

/// 5 bits less 16: d, 4 bytes of fifth bits, 16 bytes.
pub struct Q5_0;

impl Quant<{ 8 * 22 }> for Q5_0 {
    const FORMAT: Format = Format::Q5_0;
    const OFFSET: i8 = 0;
    type Kind = Plain;

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn quants(w: &[u8; 8 * 22], block: usize) -> [int8x16_t; 2] {
        five_bits(w, block * 22 + 2)
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn scales(w: &[u8; 8 * 22]) -> Scales {
        Scales::plain(halves_at(w, 0, 22))
    }
}

/// 5 bits and a minimum: d, m, 4 bytes of fifth bits, 16 bytes.
pub struct Q5_1;

impl Quant<{ 8 * 24 }> for Q5_1 {
    const FORMAT: Format = Format::Q5_1;
    const OFFSET: i8 = -16;
    type Kind = Shifted;

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn quants(w: &[u8; 8 * 24], block: usize) -> [int8x16_t; 2] {
        five_bits(w, block * 24 + 4)
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn scales(w: &[u8; 8 * 24]) -> Scales {
        Scales::shifted(halves_at(w, 0, 24), negated(halves_at(w, 2, 24)))
    }
}

/// 8 bits: d, 32 bytes.
pub struct Q8_0;

impl Quant<{ 8 * 34 }> for Q8_0 {
    const FORMAT: Format = Format::Q8_0;
    const OFFSET: i8 = 0;
    type Kind = Plain;

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn quants(w: &[u8; 8 * 34], block: usize) -> [int8x16_t; 2] {
        signed([load_u8(w, block * 34 + 2), load_u8(w, block * 34 + 18)])
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn scales(w: &[u8; 8 * 34]) -> Scales {
        Scales::plain(halves_at(w, 0, 34))
    }
}

/// 4 bits into a table: d, 16 bytes.
pub struct Iq4Nl;

impl Quant<{ 8 * 18 }> for Iq4Nl {
    const FORMAT: Format = Format::Iq4Nl;
    const OFFSET: i8 = 0;
    type Kind = Plain;

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn quants(w: &[u8; 8 * 18], block: usize) -> [int8x16_t; 2] {
        look_up(&IQ4_VALUES, load_u8(w, block * 18 + 2))
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn scales(w: &[u8; 8 * 18]) -> Scales {
        Scales::plain(halves_at(w, 0, 18))
    }
}

/// 4-bit floats: an exponent, 16 bytes.
pub struct Mxfp4;

impl Quant<{ 8 * 17 }> for Mxfp4 {
    const FORMAT: Format = Format::Mxfp4;
    const OFFSET: i8 = 0;
    type Kind = Plain;

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn quants(w: &[u8; 8 * 17], block: usize) -> [int8x16_t; 2] {
        look_up(&FP4_VALUES, load_u8(w, block * 17 + 1))
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn scales(w: &[u8; 8 * 17]) -> Scales {
        let mut scales = [0.0; 8];
        for j in 0..8 {
            scales[j] = half_power(w[17 * j]);
        }
        Scales::plain([load_f32(&scales, 0), load_f32(&scales, 4)])
    }
}
