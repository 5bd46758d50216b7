//! The formats: how the bytes of a block say where its points are, which signs they have, and what they are multiplied with.

use candor_quant::Format;

use super::{Bits, Book, IQ1, IQ2_S, IQ2_XS, IQ2_XXS, IQ3_S, IQ3_XXS, Read};

/// Implements the parts of [`Book`] that are constants or follow from them.
macro_rules! book {
    ($bytes:literal, $format:ident, offset $offset:literal, unit $unit:literal, halves $halves:literal) => {
        const FORMAT: Format = Format::$format;
        const OFFSET: i16 = $offset;
        const UNIT: f32 = $unit;
        const HALVES: bool = $halves;
        type Group = [u8; $bytes];

        #[inline]
        fn groups(row: &[u8]) -> &[Self::Group] {
            row.as_chunks().0
        }
    };
}

/// The same of how weights are looked up: points of a number of coordinates in a codebook.
macro_rules! look_up {
    ($bits:ident, $by:ident in $book:ident) => {
        const BITS: Bits = Bits::$bits;
        type Read = Read<{ $book.len() }>;

        #[inline(always)]
        fn words(read: &Self::Read, j: usize) -> [u64; 4] {
            read.$by(&$book, j)
        }

        #[inline(always)]
        fn bits(read: &Self::Read, j: usize) -> u32 {
            read.bits[j]
        }
    };
}

#[inline(always)]
fn u16_at(w: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(*w[at..].first_chunk().expect("two bytes of a block"))
}

#[inline(always)]
fn u32_at(w: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*w[at..].first_chunk().expect("four bytes of a block"))
}

#[inline(always)]
fn u64_at(w: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*w[at..].first_chunk().expect("eight bytes of a block"))
}

/// The signs of four points of eight from 7 bits each, in the lower 28: each eighth makes the number of its point's even.
#[inline(always)]
fn even_signs(words: [u32; 8]) -> [u32; 8] {
    let mut signs = [0; 8];
    for j in 0..8 {
        let word = words[j];
        let sevens = (word & 0x7f) | (word & 0x3f80) << 1 | (word & 0x1f_c000) << 2 | (word & 0xfe0_0000) << 3;
        let folded = sevens ^ sevens >> 4;
        let folded = folded ^ folded >> 2;
        signs[j] = sevens | ((folded ^ folded >> 1) & 0x0101_0101) << 7;
    }
    signs
}

/// `1 + 2 * nibble` of eight bytes, low ones first.
#[inline(always)]
fn odd_nibbles(bytes: &[u8]) -> [i8; 16] {
    let mut factors = [0; 16];
    for i in 0..16 {
        factors[i] = ((bytes[i / 2] >> (i % 2 * 4)) & 15) as i8 * 2 + 1;
    }
    factors
}

/// Eight factors.
#[inline(always)]
fn whole(factor: impl Fn(usize) -> i8) -> [i8; 16] {
    let mut factors = [0; 16];
    for j in 0..8 {
        factors[j] = factor(j);
    }
    factors
}

/// d, eight times `{ points: [u8; 4], signs and scale: u32 }`.
pub struct Iq2Xxs;

impl Book for Iq2Xxs {
    book!(66, Iq2Xxs, offset 64, unit 0.125, halves false);
    look_up!(Signs, eights in IQ2_XXS);

    #[inline(always)]
    fn read(w: &[u8; 66]) -> Self::Read {
        let (mut places, mut words) = ([0; 64], [0; 8]);
        for j in 0..8 {
            for i in 0..4 {
                places[4 * j + i] = u16::from(w[2 + 8 * j + i]);
            }
            words[j] = (u64_at(w, 2 + 8 * j) >> 32) as u32;
        }
        Read::new(places, even_signs(words))
    }

    #[inline(always)]
    fn scale(w: &[u8; 66]) -> u16 {
        u16_at(w, 0)
    }

    #[inline(always)]
    fn factors(w: &[u8; 66]) -> [i8; 16] {
        whole(|j| (w[9 + 8 * j] >> 4) as i8 * 2 + 1)
    }
}

/// d, 32 words of 9 bits of a point and 7 of signs, 16 nibbles of factors.
pub struct Iq2Xs;

impl Book for Iq2Xs {
    book!(74, Iq2Xs, offset 64, unit 0.125, halves true);
    look_up!(Signs, eights in IQ2_XS);

    #[inline(always)]
    fn read(w: &[u8; 74]) -> Self::Read {
        let (mut places, mut signs) = ([0; 64], [0; 32]);
        for i in 0..32 {
            places[i] = u16_at(w, 2 + 2 * i);
        }
        for i in 0..32 {
            let seven = places[i] >> 9;
            let folded = seven ^ seven >> 4;
            let folded = folded ^ folded >> 2;
            signs[i] = (seven | (folded ^ folded >> 1) << 7) as u8;
        }
        let mut words = [0; 8];
        for j in 0..8 {
            words[j] = u32_at(&signs, 4 * j);
        }
        Read::new(places, words)
    }

    #[inline(always)]
    fn scale(w: &[u8; 74]) -> u16 {
        u16_at(w, 0)
    }

    #[inline(always)]
    fn factors(w: &[u8; 74]) -> [i8; 16] {
        odd_nibbles(&w[66..])
    }
}

/// d, 32 bytes of points, 32 of signs, 8 of the points' upper bits, 16 nibbles of factors.
pub struct Iq2S;

impl Book for Iq2S {
    book!(82, Iq2S, offset 64, unit 0.125, halves true);
    look_up!(Signs, eights in IQ2_S);

    #[inline(always)]
    fn read(w: &[u8; 82]) -> Self::Read {
        let (mut places, mut signs) = ([0; 64], [0; 8]);
        for j in 0..8 {
            for i in 0..4 {
                places[4 * j + i] = u16::from(w[2 + 4 * j + i]) | u16::from(w[66 + j]) << (8 - 2 * i) & 0x300;
            }
            signs[j] = u32_at(w, 34 + 4 * j);
        }
        Read::new(places, signs)
    }

    #[inline(always)]
    fn scale(w: &[u8; 82]) -> u16 {
        u16_at(w, 0)
    }

    #[inline(always)]
    fn factors(w: &[u8; 82]) -> [i8; 16] {
        odd_nibbles(&w[74..])
    }
}

/// d, 64 points, eight words of signs and scale.
pub struct Iq3Xxs;

impl Book for Iq3Xxs {
    book!(98, Iq3Xxs, offset 64, unit 0.25, halves false);
    look_up!(Signs, fours in IQ3_XXS);

    #[inline(always)]
    fn read(w: &[u8; 98]) -> Self::Read {
        let (mut places, mut words) = ([0; 64], [0; 8]);
        for i in 0..64 {
            places[i] = u16::from(w[2 + i]);
        }
        for j in 0..8 {
            words[j] = u32_at(w, 66 + 4 * j);
        }
        Read::new(places, even_signs(words))
    }

    #[inline(always)]
    fn scale(w: &[u8; 98]) -> u16 {
        u16_at(w, 0)
    }

    #[inline(always)]
    fn factors(w: &[u8; 98]) -> [i8; 16] {
        whole(|j| (w[69 + 4 * j] >> 4) as i8 * 2 + 1)
    }
}

/// d, 64 bytes of points, 8 of their upper bits, 32 of signs, 8 nibbles of factors.
pub struct Iq3S;

impl Book for Iq3S {
    book!(110, Iq3S, offset 16, unit 1.0, halves false);
    look_up!(Signs, fours in IQ3_S);

    #[inline(always)]
    fn read(w: &[u8; 110]) -> Self::Read {
        let (mut places, mut signs) = ([0; 64], [0; 8]);
        for j in 0..8 {
            for i in 0..8 {
                places[8 * j + i] = u16::from(w[2 + 8 * j + i]) | u16::from(w[66 + j]) << (8 - i) & 0x100;
            }
            signs[j] = u32_at(w, 74 + 4 * j);
        }
        Read::new(places, signs)
    }

    #[inline(always)]
    fn scale(w: &[u8; 110]) -> u16 {
        u16_at(w, 0)
    }

    #[inline(always)]
    fn factors(w: &[u8; 110]) -> [i8; 16] {
        whole(|j| ((w[106 + j / 2] >> (j % 2 * 4)) & 15) as i8 * 2 + 1)
    }
}

/// d, 32 bytes of points, eight words of their upper bits, a scale and the sign of the shift.
pub struct Iq1S;

impl Book for Iq1S {
    book!(50, Iq1S, offset 16, unit 0.125, halves false);
    look_up!(Down, eights in IQ1);

    #[inline(always)]
    fn read(w: &[u8; 50]) -> Self::Read {
        let (mut places, mut down) = ([0; 64], [0; 8]);
        for j in 0..8 {
            let group = u16_at(w, 34 + 2 * j);
            for i in 0..4 {
                places[4 * j + i] = u16::from(w[2 + 4 * j + i]) | (group >> (3 * i) & 7) << 8;
            }
            down[j] = (group.cast_signed() >> 15) as u32;
        }
        Read::new(places, down)
    }

    #[inline(always)]
    fn scale(w: &[u8; 50]) -> u16 {
        u16_at(w, 0)
    }

    #[inline(always)]
    fn factors(w: &[u8; 50]) -> [i8; 16] {
        whole(|j| (w[35 + 2 * j] >> 4 & 7) as i8 * 2 + 1)
    }
}

/// 32 bytes of points, 32 nibbles of upper bits and the shift's sign, four words of 3-bit scales with a quarter of d each.
pub struct Iq1M;

impl Book for Iq1M {
    book!(56, Iq1M, offset 16, unit 0.125, halves true);
    look_up!(Down, eights in IQ1);

    #[inline(always)]
    fn read(w: &[u8; 56]) -> Self::Read {
        let (mut places, mut down) = ([0; 64], [0; 8]);
        for j in 0..8 {
            let nibbles = u16_at(w, 32 + 2 * j);
            for i in 0..4 {
                places[4 * j + i] = u16::from(w[4 * j + i]) | (nibbles >> (4 * i) & 7) << 8;
                down[j] |= (u32::from(nibbles >> (4 * i + 3) & 1) * 0xff) << (8 * i);
            }
        }
        Read::new(places, down)
    }

    #[inline(always)]
    fn scale(w: &[u8; 56]) -> u16 {
        let quarter = |i: usize| u16::from(w[49 + 2 * i] >> 4) << (4 * i);
        quarter(0) | quarter(1) | quarter(2) | quarter(3)
    }

    #[inline(always)]
    fn factors(w: &[u8; 56]) -> [i8; 16] {
        let mut factors = [0; 16];
        for h in 0..16 {
            factors[h] = (u16_at(w, 48 + h / 4 * 2) >> (3 * (h % 4)) & 7) as i8 * 2 + 1;
        }
        factors
    }
}

/// Bytes that lie in lines of the cache of their own: numbers are stored together and loaded one by one, and a store across two
/// lines would have to be waited for.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub struct Aligned<const N: usize>(pub [u8; N]);

impl<const N: usize> Aligned<N> {
    /// Four words of the bytes from `32 * j`.
    #[inline(always)]
    fn words(&self, j: usize) -> [u64; 4] {
        let word = |i: usize| u64::from_le_bytes(*self.0[32 * j + 8 * i..].first_chunk().expect("eight of them"));
        [word(0), word(1), word(2), word(3)]
    }
}

/// Implements the parts of [`Book`] that weights spelled in digits -1, 0 and 1 share.
macro_rules! digits {
    () => {
        const BITS: Bits = Bits::None;

        #[inline(always)]
        fn bits(_: &Self::Read, _: usize) -> u32 {
            0
        }

        #[inline(always)]
        fn factors(_: &Self::Group) -> [i8; 16] {
            whole(|_| 1)
        }
    };
}

/// 48 bytes of five digits, 4 of four, d.
pub struct Tq1_0;

impl Book for Tq1_0 {
    book!(54, Tq1_0, offset 1, unit 1.0, halves false);
    digits!();

    type Read = Aligned<256>;

    #[inline(always)]
    fn words(read: &Aligned<256>, j: usize) -> [u64; 4] {
        read.words(j)
    }

    #[inline(always)]
    fn read(w: &[u8; 54]) -> Aligned<256> {
        // A byte is a fraction of 256 in base 3.
        let digit = |byte: u8, power: u8| ((u16::from(byte.wrapping_mul(power)) * 3) >> 8) as u8;
        let mut digits = [0; 256];
        for (k, power) in [1, 3, 9, 27, 81].into_iter().enumerate() {
            for i in 0..32 {
                digits[32 * k + i] = digit(w[i], power);
            }
            for i in 0..16 {
                digits[160 + 16 * k + i] = digit(w[32 + i], power);
            }
            for i in 0..if k < 4 { 4 } else { 0 } {
                digits[240 + 4 * k + i] = digit(w[48 + i], power);
            }
        }
        Aligned(digits)
    }

    #[inline(always)]
    fn scale(w: &[u8; 54]) -> u16 {
        u16_at(w, 52)
    }
}

/// 64 bytes of four digits of two bits, d.
pub struct Tq2_0;

impl Book for Tq2_0 {
    book!(66, Tq2_0, offset 1, unit 1.0, halves false);
    digits!();

    /// The digits as the file has them: 32 bytes for four blocks.
    type Read = Aligned<64>;

    #[inline(always)]
    fn words(read: &Aligned<64>, j: usize) -> [u64; 4] {
        read.words(j / 4).map(|word| word >> (2 * (j % 4)) & 0x0303_0303_0303_0303)
    }

    #[inline(always)]
    fn read(w: &[u8; 66]) -> Aligned<64> {
        Aligned(*w.first_chunk().expect("64 of 66"))
    }

    #[inline(always)]
    fn scale(w: &[u8; 66]) -> u16 {
        u16_at(w, 64)
    }
}
