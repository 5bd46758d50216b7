//! Q2_K, Q3_K and Q6_K: blocks of 256 with an integer factor per 16 columns.

use std::arch::aarch64::*;

use candor_quant::Format;

use super::bits::{half_at, join, join_high, nibbles, shift, signed, times_bytes, word_at};
use super::format::{Quant, Scales};
use super::registers::load_u8;
use crate::array::Each;
use crate::kind::{Halves, ShiftedHalves};

/// 32 bytes from `at`, shifted to the right.
#[inline]
#[target_feature(enable = "neon")]
fn shifted<const N: usize>(w: &[u8; N], at: usize, by: usize) -> [uint8x16_t; 2] {
    [at, at + 16].each(|at| shift(load_u8(w, at), -(by as i8)))
}

/// The bits of `mask` of each byte.
#[inline]
#[target_feature(enable = "neon")]
fn masked(bytes: [uint8x16_t; 2], mask: u8) -> [uint8x16_t; 2] {
    bytes.each(|bytes| vandq_u8(bytes, vdupq_n_u8(mask)))
}

/// One scale for all blocks.
#[inline]
#[target_feature(enable = "neon")]
fn with_factors(d: float32x4_t, factors: int8x16_t) -> Scales {
    Scales { factors, ..Scales::plain([d; 2]) }
}

/// 2 bits; 4-bit factors and minima. 16 bytes of factors and minima, 64 of quants, d, dmin.
pub struct Q2K;

impl Quant<84> for Q2K {
    const FORMAT: Format = Format::Q2K;
    const OFFSET: i8 = 0;
    type Kind = ShiftedHalves;

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn quants(w: &[u8; 84], block: usize) -> [int8x16_t; 2] {
        signed(masked(shifted(w, 16 + block / 4 * 32, block % 4 * 2), 3))
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn scales(w: &[u8; 84]) -> Scales {
        let [factors, minima] = nibbles(load_u8(w, 0));
        let dmin = half_at(w, 82);
        let halves = [vuzp1q_u8(minima, minima), vuzp2q_u8(minima, minima)];
        let minima = halves.each(|minima| times_bytes::<0>(dmin, vget_low_u8(minima)));
        Scales { minima, ..with_factors(half_at(w, 80), vreinterpretq_s8_u8(factors)) }
    }
}

/// 3 bits less 4; 6-bit factors less 32. 32 bytes of third bits, 64 of lower bits, 12 of factors, d.
pub struct Q3K;

impl Quant<110> for Q3K {
    const FORMAT: Format = Format::Q3K;
    const OFFSET: i8 = 4;
    type Kind = Halves;

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn quants(w: &[u8; 110], block: usize) -> [int8x16_t; 2] {
        let [a, b] = shifted(w, 32 + block / 4 * 32, block % 4 * 2);
        let [third_a, third_b] = masked(shifted(w, 0, block), 1);
        signed([join::<2>(a, third_a), join::<2>(b, third_b)])
    }

    /// Four low bits of 16 factors in the nibbles of 8 bytes, two high bits in the pairs of 4 bytes.
    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn scales(w: &[u8; 110]) -> Scales {
        let [a, b, high] = [word_at(w, 96), word_at(w, 100), word_at(w, 104)];
        let four = |low: u32, high: u32| u64::from(low & 0x0f0f_0f0f | (high & 0x0303_0303) << 4);
        let first = vcreate_u8(four(a, high) | four(b, high >> 2) << 32);
        let second = vcreate_u8(four(a >> 4, high >> 4) | four(b >> 4, high >> 6) << 32);
        let factors = vreinterpretq_s8_u8(vcombine_u8(first, second));
        with_factors(half_at(w, 108), vsubq_s8(factors, vdupq_n_s8(32)))
    }
}

/// 6 bits less 32; 8-bit factors. 128 bytes of lower bits, 64 of upper bits, 16 factors, d.
pub struct Q6K;

impl Quant<210> for Q6K {
    const FORMAT: Format = Format::Q6K;
    const OFFSET: i8 = 32;
    type Kind = Halves;

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn quants(w: &[u8; 210], block: usize) -> [int8x16_t; 2] {
        // Each half of 128 columns has 64 bytes of lower and 32 of upper bits: four pairs in a byte, of which two, 4 bits apart,
        // serve the low and the high nibbles of the same bytes.
        let (half, quarter) = (block / 4, block % 4);
        let lower = [0, 16].each(|at| load_u8(w, half * 64 + quarter % 2 * 32 + at));
        let [upper_a, upper_b] = masked(shifted(w, 128 + half * 32, quarter % 2 * 2), 0x33);
        let [a, b] = lower;
        signed(if quarter < 2 {
            [join::<4>(a, upper_a), join::<4>(b, upper_b)]
        } else {
            [join_high(upper_a, a), join_high(upper_b, b)]
        })
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn scales(w: &[u8; 210]) -> Scales {
        with_factors(half_at(w, 208), vreinterpretq_s8_u8(load_u8(w, 192)))
    }
}
