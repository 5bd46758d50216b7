//! Adding and transposing within registers.

use std::arch::wasm32::*;

use super::format::Eight;

/// Sums of neighbours: two of `a`, then two of `b`.
#[inline(always)]
pub fn add_pairs(a: v128, b: v128) -> v128 {
    i32x4_add(i32x4_shuffle::<0, 2, 4, 6>(a, b), i32x4_shuffle::<1, 3, 5, 7>(a, b))
}

/// The order of `crate::order::tree`.
#[inline(always)]
pub fn tree([low, high]: Eight) -> f32 {
    let four = f32x4_add(low, high);
    let lane = [
        f32x4_extract_lane::<0>(four),
        f32x4_extract_lane::<1>(four),
        f32x4_extract_lane::<2>(four),
        f32x4_extract_lane::<3>(four),
    ];
    (lane[0] + lane[2]) + (lane[1] + lane[3])
}

/// Rows become columns: lane `r` of register `c` = lane `c` of register `r`.
#[inline(always)]
pub fn transpose([a, b, c, d]: [v128; 4]) -> [v128; 4] {
    let (ab0, ab1) = (i32x4_shuffle::<0, 4, 1, 5>(a, b), i32x4_shuffle::<2, 6, 3, 7>(a, b));
    let (cd0, cd1) = (i32x4_shuffle::<0, 4, 1, 5>(c, d), i32x4_shuffle::<2, 6, 3, 7>(c, d));
    [
        i64x2_shuffle::<0, 2>(ab0, cd0),
        i64x2_shuffle::<1, 3>(ab0, cd0),
        i64x2_shuffle::<0, 2>(ab1, cd1),
        i64x2_shuffle::<1, 3>(ab1, cd1),
    ]
}
