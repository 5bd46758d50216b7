//! Q4_K, Q5_K and IQ4_XS: blocks of 256 with 6-bit scales per 32.

use std::arch::wasm32::*;

use candor_quant::Format;

use super::bits::{bits, bits_up, look_up, times_words, word_at};
use super::format::{Quant, Range, Scales};
use super::half_table::HalfTable;
use super::registers::load;
use crate::array::Each;
use crate::kind::{Plain, Shifted};
use crate::weights::IQ4_VALUES;

/// Scales and minima of a block of 256 that begins with d, dmin and 12 packed bytes.
///
/// The 12 bytes as three words: scales 0-3 with the upper bits of scales 4-7, minima likewise, the lower nibbles of
/// scales 4-7 and of minima 4-7.
#[inline(always)]
fn scales_minima<const N: usize>(w: &[u8; N], halves: HalfTable) -> Scales {
    const LOW6: u32 = 0x3f3f_3f3f;
    const LOW4: u32 = 0x0f0f_0f0f;
    const UPPER: u32 = 0x3030_3030;
    let [scales, minima, lower] = [word_at(w, 4), word_at(w, 8), word_at(w, 12)];
    let eight = |first: u32, second: u32| u64::from(first) | u64::from(second) << 32;
    let factors = u64x2(
        eight(scales & LOW6, lower & LOW4 | scales >> 2 & UPPER),
        eight(minima & LOW6, lower >> 4 & LOW4 | minima >> 2 & UPPER),
    );
    let [d, dmin] = [0, 2].each(|at| halves.at(w, at));
    Scales::shifted(
        times_words(d, u16x8_extend_low_u8x16(factors)),
        times_words(dmin, u16x8_extend_high_u8x16(factors)),
    )
}

/// The nibbles of block `block`, of 32 bytes for each two blocks from `at`.
#[inline(always)]
fn four_bits<const N: usize>(w: &[u8; N], at: usize, block: usize) -> [v128; 2] {
    let at = at + block / 2 * 32;
    [at, at + 16].each(|at| bits(load(w, at), block % 2 * 4, 15))
}

/// 4 bits: d, dmin, 12 bytes of scales and minima, 128 of quants.
pub enum Q4K {}

impl Quant<144> for Q4K {
    const FORMAT: Format = Format::Q4K;
    const RANGE: Range = Range::UpTo(15);
    const OFFSET: i8 = 0;
    type Kind = Shifted;

    #[inline(always)]
    fn quants(w: &[u8; 144], block: usize) -> [v128; 2] {
        four_bits(w, 16, block)
    }

    #[inline(always)]
    fn scales(w: &[u8; 144], halves: HalfTable) -> Scales {
        scales_minima(w, halves)
    }
}

/// 5 bits: d, dmin, 12 bytes of scales and minima, 32 of fifth bits, 128 of lower bits.
pub enum Q5K {}

impl Quant<176> for Q5K {
    const FORMAT: Format = Format::Q5K;
    const RANGE: Range = Range::UpTo(31);
    const OFFSET: i8 = 0;
    type Kind = Shifted;

    #[inline(always)]
    fn quants(w: &[u8; 176], block: usize) -> [v128; 2] {
        let fifth = |at: usize| match block {
            0..4 => bits_up(load(w, at), 4 - block, 16),
            _ => bits(load(w, at), block - 4, 16),
        };
        let [a, b] = four_bits(w, 48, block);
        [v128_or(a, fifth(16)), v128_or(b, fifth(32))]
    }

    #[inline(always)]
    fn scales(w: &[u8; 176], halves: HalfTable) -> Scales {
        scales_minima(w, halves)
    }
}

/// 4 bits into a table; 6-bit factors less 32. d, 2 bytes of upper and 4 of lower bits of factors, 128 of quants.
pub enum Iq4Xs {}

impl Quant<136> for Iq4Xs {
    const FORMAT: Format = Format::Iq4Xs;
    const RANGE: Range = Range::Signed;
    const OFFSET: i8 = 0;
    type Kind = Plain;

    #[inline(always)]
    fn quants(w: &[u8; 136], block: usize) -> [v128; 2] {
        look_up(&IQ4_VALUES, load(w, 8 + block * 16))
    }

    #[inline(always)]
    fn scales(w: &[u8; 136], halves: HalfTable) -> Scales {
        let (low, high) = (word_at(w, 4), u32::from(u16::from_le_bytes([w[2], w[3]])));
        let factor = |j: u32| ((low >> (4 * j) & 15) | (high >> (2 * j) & 3) << 4) as i32 - 32;
        let factors = [0, 4].each(|j| i32x4(factor(j), factor(j + 1), factor(j + 2), factor(j + 3)));
        let d = f32x4_splat(halves.at(w, 0));
        Scales::plain(factors.each(|factors| f32x4_mul(d, f32x4_convert_i32x4(factors))))
    }
}
