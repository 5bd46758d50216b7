//! Formats whose weights are looked up in a codebook or spelled in digits: IQ1, IQ2, IQ3, TQ. What all tables share: how the
//! bytes of 256 weights become whole numbers, in words that any register takes.
//!
//! Layouts: `candor_quant`'s decoders, which say more of them.

use candor_quant::{Format, codebook};

/// A format of blocks of 256 weights: `w[i] = scale * factors[i / 32] * weights[i]`.
pub trait Book {
    const FORMAT: Format;
    /// What the bytes of [`Book::bytes`] are above what they stand for.
    const OFFSET: i16;
    /// Each 16 weights have a factor, instead of 32.
    const HALVES: bool;
    /// The bytes of 256 weights.
    type Group: Copy;

    /// A row's blocks.
    fn groups(row: &[u8]) -> &[Self::Group];

    /// Block `j` of 32 weights, `j` up to 7.
    fn block(w: &Self::Group, j: usize) -> Block;

    /// What all weights are multiplied with.
    fn scale(w: &Self::Group) -> f32;

    /// The factors of the eight blocks, then zeros; with [`Book::HALVES`] of their sixteen halves.
    fn factors(w: &Self::Group) -> [i8; 16];
}

/// 32 weights. Bytes of words are in order, the first one lowest.
#[derive(Clone, Copy)]
pub enum Block {
    /// Weights plus the format's offset.
    Raised([u64; 4]),
    /// Magnitudes, and a bit for each that is negative, the first one lowest.
    Signed([u64; 4], u32),
}

/// Implements the parts of [`Book`] that are constants or follow from them.
macro_rules! book {
    ($bytes:literal, $format:ident, offset $offset:literal, halves $halves:literal) => {
        const FORMAT: Format = Format::$format;
        const OFFSET: i16 = $offset;
        const HALVES: bool = $halves;
        type Group = [u8; $bytes];

        #[inline]
        fn groups(row: &[u8]) -> &[Self::Group] {
            row.as_chunks().0
        }
    };
}

#[inline(always)]
fn f16_at(w: &[u8], at: usize) -> f32 {
    candor_quant::half::f16_to_f32(u16_at(w, at))
}

#[inline(always)]
fn u16_at(w: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([w[at], w[at + 1]])
}

#[inline(always)]
fn u32_at(w: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([w[at], w[at + 1], w[at + 2], w[at + 3]])
}

#[inline(always)]
fn u64_at(w: &[u8], at: usize) -> u64 {
    u64::from(u32_at(w, at)) | u64::from(u32_at(w, at + 4)) << 32
}

/// A point of eight coordinates.
#[inline(always)]
fn eight(point: &[i8; 8]) -> u64 {
    u64::from_le_bytes(point.map(|coordinate| coordinate as u8))
}

/// Two points of four coordinates.
#[inline(always)]
fn fours(first: &[i8; 4], second: &[i8; 4]) -> u64 {
    let four = |point: &[i8; 4]| u64::from(u32::from_le_bytes(point.map(|coordinate| coordinate as u8)));
    four(first) | four(second) << 32
}

/// The signs of four points of eight from 7 bits each, in the lower 28: each eighth makes the number of its point's even.
#[inline(always)]
fn even_signs(word: u32) -> u32 {
    let sevens = (word & 0x7f) | (word & 0x3f80) << 1 | (word & 0x1f_c000) << 2 | (word & 0xfe0_0000) << 3;
    let folded = sevens ^ sevens >> 4;
    let folded = folded ^ folded >> 2;
    let odd = (folded ^ folded >> 1) & 0x0101_0101;
    sevens | odd << 7
}

/// `1 + 2 * nibble` of eight bytes, low ones first.
#[inline(always)]
fn odd_nibbles(bytes: &[u8]) -> [i8; 16] {
    std::array::from_fn(|i| ((bytes[i / 2] >> (i % 2 * 4)) & 15) as i8 * 2 + 1)
}

/// Eight factors.
#[inline(always)]
fn whole(factor: impl Fn(usize) -> i8) -> [i8; 16] {
    std::array::from_fn(|j| if j < 8 { factor(j) } else { 0 })
}

/// d, eight times `{ points: [u8; 4], signs and scale: u32 }`.
pub struct Iq2Xxs;

impl Book for Iq2Xxs {
    book!(66, Iq2Xxs, offset 64, halves false);

    #[inline(always)]
    fn block(w: &[u8; 66], j: usize) -> Block {
        let at = 2 + 8 * j;
        let points = std::array::from_fn(|i| eight(&codebook::IQ2_XXS[usize::from(w[at + i])]));
        Block::Signed(points, even_signs(u32_at(w, at + 4)))
    }

    #[inline(always)]
    fn scale(w: &[u8; 66]) -> f32 {
        f16_at(w, 0) * 0.125
    }

    #[inline(always)]
    fn factors(w: &[u8; 66]) -> [i8; 16] {
        whole(|j| (w[9 + 8 * j] >> 4) as i8 * 2 + 1)
    }
}

/// d, 32 words of 9 bits of a point and 7 of signs, 16 nibbles of factors.
pub struct Iq2Xs;

impl Book for Iq2Xs {
    book!(74, Iq2Xs, offset 64, halves true);

    #[inline(always)]
    fn block(w: &[u8; 74], j: usize) -> Block {
        let words: [u16; 4] = std::array::from_fn(|i| u16_at(w, 2 + 8 * j + 2 * i));
        let points = words.map(|word| eight(&codebook::IQ2_XS[usize::from(word & 511)]));
        let [a, b, c, d] = words.map(|word| u32::from(word >> 9));
        Block::Signed(points, even_signs(a | b << 7 | c << 14 | d << 21))
    }

    #[inline(always)]
    fn scale(w: &[u8; 74]) -> f32 {
        f16_at(w, 0) * 0.125
    }

    #[inline(always)]
    fn factors(w: &[u8; 74]) -> [i8; 16] {
        odd_nibbles(&w[66..])
    }
}

/// d, 32 bytes of points, 32 of signs, 8 of the points' upper bits, 16 nibbles of factors.
pub struct Iq2S;

impl Book for Iq2S {
    book!(82, Iq2S, offset 64, halves true);

    #[inline(always)]
    fn block(w: &[u8; 82], j: usize) -> Block {
        let upper = usize::from(w[66 + j]);
        let points = std::array::from_fn(|i| {
            let point = usize::from(w[2 + 4 * j + i]) | (upper << (8 - 2 * i)) & 0x300;
            eight(&codebook::IQ2_S[point])
        });
        Block::Signed(points, u32_at(w, 34 + 4 * j))
    }

    #[inline(always)]
    fn scale(w: &[u8; 82]) -> f32 {
        f16_at(w, 0) * 0.125
    }

    #[inline(always)]
    fn factors(w: &[u8; 82]) -> [i8; 16] {
        odd_nibbles(&w[74..])
    }
}

/// d, 64 points, eight words of signs and scale.
pub struct Iq3Xxs;

impl Book for Iq3Xxs {
    book!(98, Iq3Xxs, offset 64, halves false);

    #[inline(always)]
    fn block(w: &[u8; 98], j: usize) -> Block {
        let point = |i: usize| &codebook::IQ3_XXS[usize::from(w[2 + 8 * j + i])];
        let points = std::array::from_fn(|i| fours(point(2 * i), point(2 * i + 1)));
        Block::Signed(points, even_signs(u32_at(w, 66 + 4 * j)))
    }

    #[inline(always)]
    fn scale(w: &[u8; 98]) -> f32 {
        f16_at(w, 0) * 0.25
    }

    #[inline(always)]
    fn factors(w: &[u8; 98]) -> [i8; 16] {
        whole(|j| (w[69 + 4 * j] >> 4) as i8 * 2 + 1)
    }
}

/// d, 64 bytes of points, 8 of their upper bits, 32 of signs, 8 nibbles of factors.
pub struct Iq3S;

impl Book for Iq3S {
    book!(110, Iq3S, offset 16, halves false);

    #[inline(always)]
    fn block(w: &[u8; 110], j: usize) -> Block {
        let upper = usize::from(w[66 + j]);
        let point = |i: usize| &codebook::IQ3_S[usize::from(w[2 + 8 * j + i]) | (upper << (8 - i)) & 0x100];
        let points = std::array::from_fn(|i| fours(point(2 * i), point(2 * i + 1)));
        Block::Signed(points, u32_at(w, 74 + 4 * j))
    }

    #[inline(always)]
    fn scale(w: &[u8; 110]) -> f32 {
        f16_at(w, 0)
    }

    #[inline(always)]
    fn factors(w: &[u8; 110]) -> [i8; 16] {
        whole(|j| ((w[106 + j / 2] >> (j % 2 * 4)) & 15) as i8 * 2 + 1)
    }
}

/// Eight times each point of IQ1's codebook, plus the offset: what shifts it by an eighth up or down is 1.
static IQ1: [u64; 2048] = {
    let mut points = [0; 2048];
    let mut n = 0;
    while n < 2048 {
        let mut i = 0;
        while i < 8 {
            let raised = (codebook::IQ1[n][i] * 8 + 16) as u64;
            points[n] |= raised << (8 * i);
            i += 1;
        }
        n += 1;
    }
    points
};

/// A point of IQ1's, shifted up or down.
#[inline(always)]
fn shifted(point: usize, down: bool) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    // No byte carries: they are 8, 16 or 24.
    IQ1[point & 2047].wrapping_add(if down { ONES.wrapping_neg() } else { ONES })
}

/// d, 32 bytes of points, eight words of their upper bits, a scale and the sign of the shift.
pub struct Iq1S;

impl Book for Iq1S {
    book!(50, Iq1S, offset 16, halves false);

    #[inline(always)]
    fn block(w: &[u8; 50], j: usize) -> Block {
        let group = usize::from(u16_at(w, 34 + 2 * j));
        Block::Raised(std::array::from_fn(|i| {
            let point = usize::from(w[2 + 4 * j + i]) | (group >> (3 * i) & 7) << 8;
            shifted(point, group & 0x8000 != 0)
        }))
    }

    #[inline(always)]
    fn scale(w: &[u8; 50]) -> f32 {
        f16_at(w, 0) * 0.125
    }

    #[inline(always)]
    fn factors(w: &[u8; 50]) -> [i8; 16] {
        whole(|j| (w[35 + 2 * j] >> 4 & 7) as i8 * 2 + 1)
    }
}

/// 32 bytes of points, 32 nibbles of upper bits and the shift's sign, four words of 3-bit scales with a quarter of d each.
pub struct Iq1M;

impl Book for Iq1M {
    book!(56, Iq1M, offset 16, halves true);

    #[inline(always)]
    fn block(w: &[u8; 56], j: usize) -> Block {
        let nibbles = usize::from(u16_at(w, 32 + 2 * j));
        Block::Raised(std::array::from_fn(|i| {
            let nibble = nibbles >> (4 * i);
            shifted(usize::from(w[4 * j + i]) | (nibble & 7) << 8, nibble & 8 != 0)
        }))
    }

    #[inline(always)]
    fn scale(w: &[u8; 56]) -> f32 {
        let quarter = |i: usize| u16::from(w[49 + 2 * i] >> 4) << (4 * i);
        candor_quant::half::f16_to_f32(quarter(0) | quarter(1) | quarter(2) | quarter(3)) * 0.125
    }

    #[inline(always)]
    fn factors(w: &[u8; 56]) -> [i8; 16] {
        std::array::from_fn(|h| (u16_at(w, 48 + h / 4 * 2) >> (3 * (h % 4)) & 7) as i8 * 2 + 1)
    }
}

/// 48 bytes of five digits, 4 of four, d.
pub struct Tq1_0;

impl Tq1_0 {
    /// Digits `k` of eight bytes from `at`: a byte is a fraction of 256 in base 3.
    #[inline(always)]
    fn digits(w: &[u8; 54], at: usize, k: usize) -> u64 {
        const POWERS: [u8; 5] = [1, 3, 9, 27, 81];
        let digit = |byte: u8| (u16::from(byte.wrapping_mul(POWERS[k])) * 3 >> 8) as u8;
        u64::from_le_bytes(std::array::from_fn(|i| digit(w[at + i])))
    }
}

impl Book for Tq1_0 {
    book!(54, Tq1_0, offset 1, halves false);

    #[inline(always)]
    fn block(w: &[u8; 54], j: usize) -> Block {
        let digits = Tq1_0::digits;
        Block::Raised(match j {
            0..5 => std::array::from_fn(|i| digits(w, 8 * i, j)),
            5 | 6 => std::array::from_fn(|i| digits(w, 32 + i % 2 * 8, 2 * (j - 5) + i / 2)),
            _ => {
                // Of the last four bytes, one digit after the other.
                let tail = |k: usize| digits(w, 44, k) >> 32;
                let pair = |k: usize| tail(k) | tail(k + 1) << 32;
                [digits(w, 32, 4), digits(w, 40, 4), pair(0), pair(2)]
            }
        })
    }

    #[inline(always)]
    fn scale(w: &[u8; 54]) -> f32 {
        f16_at(w, 52)
    }

    #[inline(always)]
    fn factors(_: &[u8; 54]) -> [i8; 16] {
        whole(|_| 1)
    }
}

/// 64 bytes of four digits of two bits, d.
pub struct Tq2_0;

impl Book for Tq2_0 {
    book!(66, Tq2_0, offset 1, halves false);

    #[inline(always)]
    fn block(w: &[u8; 66], j: usize) -> Block {
        let word = |i: usize| u64_at(w, j / 4 * 32 + 8 * i) >> (2 * (j % 4)) & 0x0303_0303_0303_0303;
        Block::Raised(std::array::from_fn(word))
    }

    #[inline(always)]
    fn scale(w: &[u8; 66]) -> f32 {
        f16_at(w, 64)
    }

    #[inline(always)]
    fn factors(_: &[u8; 66]) -> [i8; 16] {
        whole(|_| 1)
    }
}
