//! How an instruction set multiplies integers: all that the tables differ in.

use std::arch::aarch64::*;

use super::panel::{Half, QUADS};
use crate::order::SEGMENT_BLOCKS;

/// Four numbers for each input of a tile and each four rows.
///
/// Lane = row, unless an instruction set says otherwise: then `of_rows`, `of_inputs` and `in_rows` know what is where.
pub type Tile<V, const T: usize> = [[V; QUADS]; T];

/// An instruction set's products for one input.
///
/// Stable Rust has no safe trait methods with target features, hence the `unsafe` here and below.
pub trait Dot {
    /// Adds 16 products to four sums; which products to which sum is the instruction's own affair.
    ///
    /// # Safety
    /// The processor has the instruction set.
    unsafe fn dot(sums: int32x4_t, w: int8x16_t, x: int8x16_t) -> int32x4_t;
}

/// An instruction set's products for several inputs; `T`, the inputs of a tile, is even.
pub trait Integer {
    /// What a single input is multiplied by: a part of the instruction set.
    type Dot: Dot;

    /// 16 columns of four rows in the order in which [`Integer::sums`] reads them.
    ///
    /// # Safety
    /// The processor has the instruction set.
    unsafe fn pack(rows: [int8x16_t; 4]) -> [int8x16_t; 4];

    /// `START`, or zero for less than a whole block, plus the exact sums of `H` halves of a block of 32 columns times each input,
    /// together; half `first` comes first.
    ///
    /// # Safety
    /// The processor has the instruction set.
    unsafe fn sums<const H: usize, const T: usize>(
        w: &[Half; H],
        x: [&[i8; 32]; T],
        first: usize,
    ) -> Tile<int32x4_t, T>;

    /// Exact sums of both halves of a block of 32 columns times each input.
    ///
    /// # Safety
    /// The processor has the instruction set.
    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn halves<const T: usize>([first, second]: &[Half; 2], x: [&[i8; 32]; T]) -> [Tile<int32x4_t, T>; 2] {
        // SAFETY: as this function's.
        unsafe {
            [
                Self::sums::<1, T>(std::array::from_ref(first), x, 0),
                Self::sums::<1, T>(std::array::from_ref(second), x, 1),
            ]
        }
    }

    /// What the sums of a whole block begin with, for [`Integer::float`].
    const START: i32 = 0;

    /// Sums of a whole block that began with [`Integer::START`], as floats.
    ///
    /// # Safety
    /// The processor has the instruction set.
    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn float(sums: int32x4_t) -> float32x4_t {
        vcvtq_f32_s32(sums)
    }

    /// What belongs to the rows of place `t` of a tile, from what belongs to four rows.
    ///
    /// # Safety
    /// The processor has the instruction set.
    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn of_rows(rows: float32x4_t, _t: usize) -> float32x4_t {
        rows
    }

    /// What belongs to the inputs of place `t` of a tile, from what each input has for block `b`.
    ///
    /// # Safety
    /// The processor has the instruction set.
    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn of_inputs<const T: usize>(inputs: &[[f32; SEGMENT_BLOCKS]; T], b: usize, t: usize) -> float32x4_t {
        vdupq_n_f32(inputs[t][b])
    }

    /// The tile with place = input and lane = row.
    ///
    /// # Safety
    /// The processor has the instruction set.
    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn in_rows<const T: usize>(tile: Tile<float32x4_t, T>) -> Tile<float32x4_t, T> {
        tile
    }
}
