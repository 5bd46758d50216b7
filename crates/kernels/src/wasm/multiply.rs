//! How bytes are multiplied: all that the tables differ in. Sums are exact either way, so they are the same.

use std::arch::wasm32::*;

use super::format::Range;

/// Products of weights with activations, which are within -127 to 127.
pub trait Multiply {
    /// Sixteen weights, as they are multiplied.
    type Weights: Copy;
    /// Sixteen activations.
    type Inputs: Copy;
    /// Whether weights of -128 give other sums.
    const SYMMETRIC: bool;

    fn weights(w: v128) -> Self::Weights;

    /// The same of weights that may be negative.
    fn signed_weights(w: v128) -> Self::Weights;

    fn inputs(x: v128) -> Self::Inputs;

    /// Four activations, those from `4 * K` on, for each lane.
    fn spread<const K: usize>(x: Self::Inputs) -> Self::Inputs;

    /// Lane `i` gains the products of bytes `4i..4i + 4`.
    fn add(sums: v128, w: Self::Weights, x: Self::Inputs) -> v128;

    /// The same of [`Multiply::signed_weights`].
    fn add_signed(sums: v128, w: Self::Weights, x: Self::Inputs) -> v128;
}

/// Weights of a format.
#[inline(always)]
pub fn weights<M: Multiply>(range: Range, w: v128) -> M::Weights {
    if range == Range::Unsigned { M::weights(w) } else { M::signed_weights(w) }
}

/// Products of a format's weights.
#[inline(always)]
pub fn add<M: Multiply>(range: Range, sums: v128, w: M::Weights, x: M::Inputs) -> v128 {
    if range == Range::Unsigned { M::add(sums, w, x) } else { M::add_signed(sums, w, x) }
}

/// `i32x4.dot_i16x8_s`: bytes become words of 16 bits, those at even places and those at odd ones.
pub enum Words {}

#[inline(always)]
fn signed_words(bytes: v128) -> [v128; 2] {
    [i16x8_shr(i16x8_shl(bytes, 8), 8), i16x8_shr(bytes, 8)]
}

impl Multiply for Words {
    type Weights = [v128; 2];
    type Inputs = [v128; 2];
    const SYMMETRIC: bool = false;

    #[inline(always)]
    fn weights(w: v128) -> [v128; 2] {
        [v128_and(w, u16x8_splat(0xff)), u16x8_shr(w, 8)]
    }

    #[inline(always)]
    fn signed_weights(w: v128) -> [v128; 2] {
        signed_words(w)
    }

    #[inline(always)]
    fn inputs(x: v128) -> [v128; 2] {
        signed_words(x)
    }

    #[inline(always)]
    fn spread<const K: usize>(x: [v128; 2]) -> [v128; 2] {
        x.map(spread::<K>)
    }

    #[inline(always)]
    fn add(sums: v128, w: [v128; 2], x: [v128; 2]) -> v128 {
        i32x4_add(sums, i32x4_add(i32x4_dot_i16x8(w[0], x[0]), i32x4_dot_i16x8(w[1], x[1])))
    }

    #[inline(always)]
    fn add_signed(sums: v128, w: [v128; 2], x: [v128; 2]) -> v128 {
        Self::add(sums, w, x)
    }
}

/// Lane `K`, everywhere.
#[inline(always)]
fn spread<const K: usize>(x: v128) -> v128 {
    match K {
        0 => i32x4_shuffle::<0, 0, 0, 0>(x, x),
        1 => i32x4_shuffle::<1, 1, 1, 1>(x, x),
        2 => i32x4_shuffle::<2, 2, 2, 2>(x, x),
        _ => i32x4_shuffle::<3, 3, 3, 3>(x, x),
    }
}

/// `i32x4.relaxed_dot_i8x16_i7x16_add_s`, which is the same everywhere while its second operand is 0 to 127. Some processors
/// take that operand's highest bit as a sign and some don't, and the sum of two products may have to fit 16 bits: 2 * 128 * 127
/// does.
///
/// Weights of 0 to 127 are that operand. For others it is the magnitudes of activations, whose signs weights take over: all but
/// -128, which has no negative. `rows` looks for it and leaves such weights to [`Words`].
#[cfg(target_feature = "relaxed-simd")]
pub enum RelaxedBytes {}

/// Activations, and for signed weights their magnitudes and all ones where they are negative.
#[cfg(target_feature = "relaxed-simd")]
#[derive(Clone, Copy)]
pub struct Signs {
    x: v128,
    magnitudes: v128,
    negative: v128,
}

#[cfg(target_feature = "relaxed-simd")]
impl Multiply for RelaxedBytes {
    type Weights = v128;
    type Inputs = Signs;
    const SYMMETRIC: bool = true;

    #[inline(always)]
    fn weights(w: v128) -> v128 {
        w
    }

    #[inline(always)]
    fn signed_weights(w: v128) -> v128 {
        w
    }

    #[inline(always)]
    fn inputs(x: v128) -> Signs {
        Signs { x, magnitudes: i8x16_abs(x), negative: i8x16_lt(x, i8x16_splat(0)) }
    }

    #[inline(always)]
    fn spread<const K: usize>(Signs { x, magnitudes, negative }: Signs) -> Signs {
        Signs { x: spread::<K>(x), magnitudes: spread::<K>(magnitudes), negative: spread::<K>(negative) }
    }

    #[inline(always)]
    fn add(sums: v128, w: v128, x: Signs) -> v128 {
        i32x4_relaxed_dot_i8x16_i7x16_add(x.x, w, sums)
    }

    #[inline(always)]
    fn add_signed(sums: v128, w: v128, x: Signs) -> v128 {
        let w = i8x16_sub(v128_xor(w, x.negative), x.negative);
        i32x4_relaxed_dot_i8x16_i7x16_add(w, x.magnitudes, sums)
    }
}
