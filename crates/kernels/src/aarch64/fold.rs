//! Adding and transposing within registers.

use std::arch::aarch64::*;

use super::format::Eight;

/// Lane `i` = sum of the lanes of register `i`.
#[inline]
#[target_feature(enable = "neon")]
pub fn fold([a, b, c, d]: [int32x4_t; 4]) -> int32x4_t {
    vpaddq_s32(vpaddq_s32(a, b), vpaddq_s32(c, d))
}

/// The order of `crate::order::tree`.
#[inline]
#[target_feature(enable = "neon")]
pub fn tree([low, high]: Eight) -> f32 {
    let four = vaddq_f32(low, high);
    let two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
    vget_lane_f32::<0>(two) + vget_lane_f32::<1>(two)
}

/// Rows become columns: lane `r` of register `c` = lane `c` of register `r`.
#[inline]
#[target_feature(enable = "neon")]
pub fn transpose([a, b, c, d]: [float32x4_t; 4]) -> [float32x4_t; 4] {
    let (ab0, ab1) = (vtrn1q_f32(a, b), vtrn2q_f32(a, b));
    let (cd0, cd1) = (vtrn1q_f32(c, d), vtrn2q_f32(c, d));
    [
        vcombine_f32(vget_low_f32(ab0), vget_low_f32(cd0)),
        vcombine_f32(vget_low_f32(ab1), vget_low_f32(cd1)),
        vcombine_f32(vget_high_f32(ab0), vget_high_f32(cd0)),
        vcombine_f32(vget_high_f32(ab1), vget_high_f32(cd1)),
    ]
}
