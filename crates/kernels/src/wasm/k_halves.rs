//! Q2_K, Q3_K and Q6_K: blocks of 256 with an integer factor per 16 columns.

use std::arch::wasm32::*;

use candor_quant::Format;

use super::bits::{bits, bits_up, nibbles, times_words, word_at};
use super::format::{Quant, Range, Scales};
use super::half_table::HalfTable;
use super::registers::load;
use crate::array::Each;
use crate::kind::{Halves, ShiftedHalves};

/// One scale for all blocks.
#[inline(always)]
fn with_factors(d: f32, factors: v128) -> Scales {
    Scales { factors, ..Scales::plain([f32x4_splat(d); 2]) }
}

/// 2 bits; 4-bit factors and minima. 16 bytes of factors and minima, 64 of quants, d, dmin.
pub enum Q2K {}

impl Quant<84> for Q2K {
    const FORMAT: Format = Format::Q2K;
    const RANGE: Range = Range::UpTo(3);
    const OFFSET: i8 = 0;
    type Kind = ShiftedHalves;

    #[inline(always)]
    fn quants(w: &[u8; 84], block: usize) -> [v128; 2] {
        let at = 16 + block / 4 * 32;
        [at, at + 16].each(|at| bits(load(w, at), block % 4 * 2, 3))
    }

    #[inline(always)]
    fn scales(w: &[u8; 84], halves: HalfTable) -> Scales {
        let [factors, minima] = nibbles(load(w, 0));
        let first = i8x16_shuffle::<0, 2, 4, 6, 8, 10, 12, 14, 0, 0, 0, 0, 0, 0, 0, 0>(minima, minima);
        let second = i8x16_shuffle::<1, 3, 5, 7, 9, 11, 13, 15, 0, 0, 0, 0, 0, 0, 0, 0>(minima, minima);
        let dmin = halves.at(w, 82);
        let minima = [first, second].each(|minima| times_words(dmin, u16x8_extend_low_u8x16(minima)));
        Scales { minima, ..with_factors(halves.at(w, 80), factors) }
    }
}

/// 3 bits less 4; 6-bit factors less 32. 32 bytes of third bits, 64 of lower bits, 12 of factors, d.
pub enum Q3K {}

impl Quant<110> for Q3K {
    const FORMAT: Format = Format::Q3K;
    const RANGE: Range = Range::UpTo(7);
    const OFFSET: i8 = 4;
    type Kind = Halves;

    #[inline(always)]
    fn quants(w: &[u8; 110], block: usize) -> [v128; 2] {
        let at = 32 + block / 4 * 32;
        [0, 16].each(|half| {
            let third = load(w, half);
            let third = if block < 2 { bits_up(third, 2 - block, 4) } else { bits(third, block - 2, 4) };
            v128_or(bits(load(w, at + half), block % 4 * 2, 3), third)
        })
    }

    /// Four low bits of 16 factors in the nibbles of 8 bytes, two high bits in the pairs of 4 bytes.
    #[inline(always)]
    fn scales(w: &[u8; 110], halves: HalfTable) -> Scales {
        let [a, b, high] = [word_at(w, 96), word_at(w, 100), word_at(w, 104)];
        let four = |low: u32, high: u32| u64::from(low & 0x0f0f_0f0f | (high & 0x0303_0303) << 4);
        let first = four(a, high) | four(b, high >> 2) << 32;
        let second = four(a >> 4, high >> 4) | four(b >> 4, high >> 6) << 32;
        with_factors(halves.at(w, 108), i8x16_sub(u64x2(first, second), i8x16_splat(32)))
    }
}

/// 6 bits less 32; 8-bit factors. 128 bytes of lower bits, 64 of upper bits, 16 factors, d.
pub enum Q6K {}

impl Quant<210> for Q6K {
    const FORMAT: Format = Format::Q6K;
    const RANGE: Range = Range::UpTo(63);
    const OFFSET: i8 = 32;
    type Kind = Halves;

    #[inline(always)]
    fn quants(w: &[u8; 210], block: usize) -> [v128; 2] {
        // Each half of 128 columns has 64 bytes of lower and 32 of upper bits, four pairs in a byte.
        let (half, quarter) = (block / 4, block % 4);
        [0, 16].each(|at| {
            let lower = bits(load(w, half * 64 + quarter % 2 * 32 + at), quarter / 2 * 4, 15);
            let upper = load(w, 128 + half * 32 + at);
            let upper =
                if quarter < 2 { bits_up(upper, 4 - quarter * 2, 0x30) } else { bits(upper, quarter * 2 - 4, 0x30) };
            v128_or(lower, upper)
        })
    }

    #[inline(always)]
    fn scales(w: &[u8; 210], halves: HalfTable) -> Scales {
        with_factors(halves.at(w, 208), load(w, 192))
    }
}
