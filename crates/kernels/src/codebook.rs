//! Formats whose weights are looked up in a codebook or spelled in digits: IQ1, IQ2, IQ3, TQ. What all tables share: how the
//! bytes of 256 weights become whole numbers, in words that any register takes.
//!
//! Layouts: `candor_quant`'s decoders, which say more of them. What is taken out of the bytes of a group is taken out for all of
//! it at once, in loops that the compiler turns into vectors; and in loops instead of `array::from_fn`, which does not become
//! part of a kernel with target features.
#![allow(clippy::needless_range_loop, reason = "the index meets several arrays, with constant bounds")]

mod formats;
mod points;

use candor_quant::Format;

use crate::array::Each;

pub use formats::{Iq1M, Iq1S, Iq2S, Iq2Xs, Iq2Xxs, Iq3S, Iq3Xxs, Tq1_0, Tq2_0};
pub use points::{IQ1, IQ2_S, IQ2_XS, IQ2_XXS, IQ3_S, IQ3_XXS};

/// A format of blocks of 256 weights: `w[i] = scale * factors[i / 32] * weights[i]`.
pub trait Book {
    const FORMAT: Format;
    /// What raised weights are above what they stand for.
    const OFFSET: i16;
    /// Each 16 weights have a factor, instead of 32.
    const HALVES: bool;
    const BITS: Bits;
    /// A power of two.
    const UNIT: f32;
    /// The bytes of 256 weights.
    type Group: Copy;
    /// What the weights are looked up by.
    type Read: Copy;

    /// A row's blocks.
    fn groups(row: &[u8]) -> &[Self::Group];

    fn read(w: &Self::Group) -> Self::Read;

    /// Block `j` of 32, `j` up to 7: bytes of words are in order, the first one lowest. What they are, `BITS` says.
    fn words(read: &Self::Read, j: usize) -> [u64; 4];

    /// A bit for each weight of block `j`, the first one lowest.
    fn bits(read: &Self::Read, j: usize) -> u32;

    /// What all weights are multiplied with, in multiples of `UNIT`: the bits of a half-precision number.
    fn scale(w: &Self::Group) -> u16;

    /// The factors of the eight blocks, then zeros; with `HALVES` of their sixteen halves.
    fn factors(w: &Self::Group) -> [i8; 16];
}

/// What the bits of a block say.
#[derive(Clone, Copy, PartialEq)]
pub enum Bits {
    /// Nothing: words are weights plus the offset.
    None,
    /// Words are magnitudes; weights with a bit are negative.
    Signs,
    /// Words are weights plus the offset less one, with a bit; plus the offset and one without.
    Down,
}

/// Places in a codebook of `N` points, and a bit for each weight. Aligned, since numbers are stored together and loaded one by
/// one: a store across two lines of the cache would have to be waited for.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub struct Read<const N: usize> {
    /// Below `N`. Of points of eight coordinates there are 32, then zeros.
    places: [u64; 16],
    bits: [u32; 8],
}

impl<const N: usize> Read<N> {
    #[inline(always)]
    pub fn new(mut places: [u16; 64], bits: [u32; 8]) -> Read<N> {
        const { assert!(N.is_power_of_two() && N <= 1 << 16) };
        for place in &mut places {
            *place &= (N - 1) as u16;
        }
        let mut words = [0; 16];
        for i in 0..16 {
            let [a, b, c, d] = [places[4 * i], places[4 * i + 1], places[4 * i + 2], places[4 * i + 3]].each(u64::from);
            words[i] = a | b << 16 | c << 32 | d << 48;
        }
        Read { places: words, bits }
    }

    /// Place `i`, which is below `N`.
    #[inline(always)]
    pub fn place(&self, i: usize) -> usize {
        (self.four(i / 4) >> (16 * (i % 4)) & 0xffff) as usize
    }

    /// Places `4 * i` to `4 * i + 3`, 16 bits each, the first one lowest.
    #[inline(always)]
    pub fn four(&self, i: usize) -> u64 {
        self.places[i]
    }

    #[inline(always)]
    fn eights(&self, book: &[u64; N], j: usize) -> [u64; 4] {
        let word = |i: usize| book[self.place(4 * j + i)];
        [word(0), word(1), word(2), word(3)]
    }

    #[inline(always)]
    fn fours(&self, book: &[u32; N], j: usize) -> [u64; 4] {
        let word = |i: usize| {
            let [low, high] = [0, 1].each(|side| u64::from(book[self.place(8 * j + 2 * i + side)]));
            low | high << 32
        };
        [word(0), word(1), word(2), word(3)]
    }
}
