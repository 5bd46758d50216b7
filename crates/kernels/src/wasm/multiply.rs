//! How bytes are multiplied: all that the tables differ in. Sums are exact either way, so they are the same.

use std::arch::wasm32::*;

use super::fold::add_pairs;
use super::format::Range;
use crate::array::Each;

/// Inputs that are multiplied together.
pub const INPUTS: usize = 4;

/// Steps of a block at most.
pub const STEPS: usize = 16;

/// Some columns of the inputs: four bytes or two words of each.
pub type Columns = [i32; INPUTS];

/// Products of weights with activations, which are within -127 to 127. A step multiplies a few columns.
pub trait Multiply {
    /// For one input, of weights of 0 to 127.
    type Unsigned: Products;
    /// The same of weights that may be negative.
    type Signed: Products;
    /// Steps for four columns.
    const PARTS: usize;
    /// Whether offsets are still in the quants of a panel.
    const OFFSETS: bool;

    /// Bytes, signed or not, that a register has in fours, as the first and as the second step for four columns takes them.
    fn split(bytes: v128, signed: bool) -> [v128; 2];

    /// Steps, of those for 16 columns or 32, whose products may be added before [`Multiply::end`].
    fn together(range: Range) -> usize;

    /// What products are added to, that are to be added to `sums`.
    fn begin(sums: v128) -> v128;

    /// Lane `i` gains the products of its columns.
    fn add(part: v128, w: v128, x: v128) -> v128;

    /// `sums` and what was added to its part.
    fn end(sums: v128, part: v128) -> v128;
}

/// `i32x4.dot_i16x8_s`: bytes become words of 16 bits, those at even places and those at odd ones.
pub enum Words {}

#[inline(always)]
fn signed_words(bytes: v128) -> [v128; 2] {
    [i16x8_shr(i16x8_shl(bytes, 8), 8), i16x8_shr(bytes, 8)]
}

impl Multiply for Words {
    type Unsigned = UnsignedWords;
    type Signed = SignedWords;
    const PARTS: usize = 2;
    const OFFSETS: bool = false;

    #[inline(always)]
    fn split(bytes: v128, signed: bool) -> [v128; 2] {
        if signed { signed_words(bytes) } else { [v128_and(bytes, u16x8_splat(0xff)), u16x8_shr(bytes, 8)] }
    }

    /// Sums are of 32 bits.
    #[inline(always)]
    fn together(_: Range) -> usize {
        16
    }

    #[inline(always)]
    fn begin(sums: v128) -> v128 {
        sums
    }

    #[inline(always)]
    fn add(part: v128, w: v128, x: v128) -> v128 {
        i32x4_add(part, i32x4_dot_i16x8(w, x))
    }

    #[inline(always)]
    fn end(_: v128, part: v128) -> v128 {
        part
    }
}

/// `i16x8.relaxed_dot_i8x16_i7x16_s`, which is the same everywhere while its second operand is 0 to 127. Some processors take that
/// operand's highest bit as a sign and some don't, and the sum of two products may have to fit 16 bits: 2 * 128 * 127 does. Weights
/// of 0 to 127 are that operand. Sums stay words of 16 bits as long as they fit.
#[cfg(target_feature = "relaxed-simd")]
pub enum RelaxedBytes {}

#[cfg(target_feature = "relaxed-simd")]
impl Multiply for RelaxedBytes {
    type Unsigned = UnsignedBytes;
    type Signed = SignedBytes;
    const PARTS: usize = 1;
    const OFFSETS: bool = true;

    #[inline(always)]
    fn split(bytes: v128, _: bool) -> [v128; 2] {
        [bytes; 2]
    }

    #[inline(always)]
    fn together(range: Range) -> usize {
        [8, 4].into_iter().find(|&steps| range.fits_words(2 * steps)).unwrap_or(2) as usize
    }

    #[inline(always)]
    fn begin(_: v128) -> v128 {
        i16x8_splat(0)
    }

    #[inline(always)]
    fn add(part: v128, w: v128, x: v128) -> v128 {
        i16x8_add(part, i16x8_relaxed_dot_i8x16_i7x16(x, w))
    }

    #[inline(always)]
    fn end(sums: v128, part: v128) -> v128 {
        i32x4_add(sums, i32x4_extadd_pairwise_i16x8(part))
    }
}

/// Products of one input with the weights of a format, 32 of them at a time.
pub trait Products {
    /// Whether sums lack what [`Products::missing`] gives.
    const MISSES: bool;

    /// Sixteen activations.
    fn inputs(x: v128) -> [v128; 2];

    /// What the sum of a block lacks.
    fn missing(x: [[v128; 2]; 2]) -> i32;

    /// Sums of the products of a block, as [`Products::fold`] takes them. `ones` are words: a constant costs V8 three instructions
    /// wherever it is met.
    fn block(range: Range, w: [v128; 2], x: [[v128; 2]; 2], ones: v128) -> v128;

    /// Lane `i` = sum of block `i` of four.
    fn fold(range: Range, blocks: [[v128; 2]; 2]) -> v128;

    /// Words of 16 bits: four that add up to the first half's products, and four of the second's. Weights are at most 63.
    fn halves(w: [v128; 2], x: [[v128; 2]; 2]) -> v128;
}

/// Words of weights of 0 to 127. Those at even places meet activations that are 256 times as large, those at odd places are so
/// themselves: what is masked anyway needs no shift then.
pub enum UnsignedWords {}

/// Words of weights that may be negative, 256 times as large.
pub enum SignedWords {}

const HIGH: v128 = i16x8(-256, -256, -256, -256, -256, -256, -256, -256);

#[inline(always)]
fn products([w, x]: [[v128; 2]; 2]) -> v128 {
    i32x4_add(i32x4_dot_i16x8(w[0], x[0]), i32x4_dot_i16x8(w[1], x[1]))
}

#[inline(always)]
fn fold_integers([[a, b], [c, d]]: [[v128; 2]; 2]) -> v128 {
    add_pairs(add_pairs(a, b), add_pairs(c, d))
}

/// Implements products of words from what makes them of 16 activations and of 16 weights.
macro_rules! words {
    ($name:ident, $inputs:expr, $weights:expr) => {
        impl Products for $name {
            const MISSES: bool = false;

            #[inline(always)]
            fn inputs(x: v128) -> [v128; 2] {
                $inputs(x)
            }

            #[inline(always)]
            fn missing(_: [[v128; 2]; 2]) -> i32 {
                0
            }

            #[inline(always)]
            fn block(_: Range, w: [v128; 2], x: [[v128; 2]; 2], _: v128) -> v128 {
                i32x4_add(products([$weights(w[0]), x[0]]), products([$weights(w[1]), x[1]]))
            }

            #[inline(always)]
            fn fold(_: Range, blocks: [[v128; 2]; 2]) -> v128 {
                i32x4_shr(fold_integers(blocks), 8)
            }

            #[inline(always)]
            fn halves(w: [v128; 2], x: [[v128; 2]; 2]) -> v128 {
                let [a, b] = [0, 1].each(|half| i32x4_shr(products([$weights(w[half]), x[half]]), 8));
                i16x8_narrow_i32x4(a, b)
            }
        }
    };
}

words!(UnsignedWords, |x| [i16x8_shl(x, 8), i16x8_shr(x, 8)], |w| [v128_and(w, u16x8_splat(0xff)), v128_and(w, HIGH)]);
words!(SignedWords, signed_words, |w| [i16x8_shl(w, 8), v128_and(w, HIGH)]);

/// Bytes of weights of 0 to 127.
#[cfg(target_feature = "relaxed-simd")]
pub enum UnsignedBytes {}

/// Sums of neighbours, words of 16 bits: four of `a`, then four of `b`.
#[cfg(target_feature = "relaxed-simd")]
#[inline(always)]
fn add_word_pairs(a: v128, b: v128) -> v128 {
    i16x8_add(i32x4_shuffle::<0, 2, 4, 6>(a, b), i32x4_shuffle::<1, 3, 5, 7>(a, b))
}

#[cfg(target_feature = "relaxed-simd")]
impl Products for UnsignedBytes {
    const MISSES: bool = false;

    #[inline(always)]
    fn inputs(x: v128) -> [v128; 2] {
        [x; 2]
    }

    #[inline(always)]
    fn missing(_: [[v128; 2]; 2]) -> i32 {
        0
    }

    #[inline(always)]
    fn block(range: Range, w: [v128; 2], x: [[v128; 2]; 2], _: v128) -> v128 {
        let [a, b] = [0, 1].each(|half| i16x8_relaxed_dot_i8x16_i7x16(x[half][0], w[half]));
        if range.fits_words(4) {
            i16x8_add(a, b)
        } else {
            i32x4_add(i32x4_extadd_pairwise_i16x8(a), i32x4_extadd_pairwise_i16x8(b))
        }
    }

    #[inline(always)]
    fn fold(range: Range, [[a, b], [c, d]]: [[v128; 2]; 2]) -> v128 {
        let wide = |sums: v128| i32x4_extadd_pairwise_i16x8(sums);
        if range.fits_words(16) {
            wide(add_word_pairs(add_word_pairs(a, b), add_word_pairs(c, d)))
        } else if range.fits_words(8) {
            add_pairs(wide(add_word_pairs(a, b)), wide(add_word_pairs(c, d)))
        } else if range.fits_words(4) {
            fold_integers([[wide(a), wide(b)], [wide(c), wide(d)]])
        } else {
            fold_integers([[a, b], [c, d]])
        }
    }

    #[inline(always)]
    fn halves(w: [v128; 2], x: [[v128; 2]; 2]) -> v128 {
        let [a, b] = [0, 1].each(|half| i16x8_relaxed_dot_i8x16_i7x16(x[half][0], w[half]));
        add_word_pairs(a, b)
    }
}

/// The same of weights that may be negative. The second operand is the magnitudes of activations, whose signs weights take over:
/// for a negative activation `x`, `w * x` is `!w * -x` and `-x` more. So a weight of -128, which has no negative, is no exception.
#[cfg(target_feature = "relaxed-simd")]
pub enum SignedBytes {}

#[cfg(target_feature = "relaxed-simd")]
impl Products for SignedBytes {
    const MISSES: bool = true;

    /// Magnitudes, and all ones where activations are negative.
    #[inline(always)]
    fn inputs(x: v128) -> [v128; 2] {
        [i8x16_abs(x), i8x16_shr(x, 7)]
    }

    #[inline(always)]
    fn missing(x: [[v128; 2]; 2]) -> i32 {
        let [a, b] = x.each(|[magnitudes, negative]| i16x8_extadd_pairwise_u8x16(v128_and(magnitudes, negative)));
        let four = i32x4_extadd_pairwise_i16x8(i16x8_add(a, b));
        i32x4_extract_lane::<0>(four)
            + i32x4_extract_lane::<1>(four)
            + i32x4_extract_lane::<2>(four)
            + i32x4_extract_lane::<3>(four)
    }

    #[inline(always)]
    fn block(_: Range, w: [v128; 2], x: [[v128; 2]; 2], ones: v128) -> v128 {
        let [a, b] = [0, 1].each(|half| {
            let [magnitudes, negative] = x[half];
            i32x4_dot_i16x8(i16x8_relaxed_dot_i8x16_i7x16(v128_xor(w[half], negative), magnitudes), ones)
        });
        i32x4_add(a, b)
    }

    #[inline(always)]
    fn fold(_: Range, blocks: [[v128; 2]; 2]) -> v128 {
        fold_integers(blocks)
    }

    #[inline(always)]
    fn halves(w: [v128; 2], x: [[v128; 2]; 2]) -> v128 {
        UnsignedBytes::halves(w, x)
    }
}
