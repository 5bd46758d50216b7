//! One input row: weights are read once, in the file's layout, as fast as memory gives them. Lane = block.

use std::arch::aarch64::*;

use super::fold::{fold, tree};
use super::format::{Eight, Quant};
use super::instructions::prefetch;
use super::integer::Dot;
use super::panel::widen;
use super::registers::{load_f32, load_i8, load_i16};
use crate::Q8Row;
use crate::array::{self, Each};
use crate::kind::{GROUP, Kind, padded};
use crate::order::SEGMENT;
use crate::unroll::unroll;
use crate::weights::Minima;

/// Bytes that prefetches run ahead: what was best on x86-64, not measured here.
const AHEAD: usize = 2048;
const SEGMENT_GROUPS: usize = SEGMENT / GROUP;

/// `out[o] = w[o] . x`.
///
/// Rows that go together are of the two halves of `w`.
///
/// # Safety
/// The processor has `D`.
#[target_feature(enable = "neon")]
pub unsafe fn rows<D: Dot, Q: Quant<N>, const N: usize>(out: &mut [f32], w: &[u8], row_bytes: usize, x: Q8Row<'_>) {
    let half = if Q::PAIRED { out.len() / 2 } else { 0 };
    let row = |o: usize| &w[o * row_bytes..][..row_bytes];
    for o in 0..half {
        // SAFETY: as this function's.
        let [a, b] = unsafe { dot::<D, Q, N, 2>([row(o), row(o + half)], x) };
        out[o] = a;
        out[o + half] = b;
    }
    for o in half * 2..out.len() {
        // SAFETY: as this function's.
        [out[o]] = unsafe { dot::<D, Q, N, 1>([row(o)], x) };
    }
}

/// Repeats a block for each of `R` rows, up to four: as a loop it would stay one, and rows would share nothing.
macro_rules! each_row {
    ($row:ident, $rows:expr, $body:block) => {
        unroll!($row, { if $row < $rows { $body } }, 0 1 2 3)
    };
}
/// A group of activations.
struct Group<'a> {
    quants: &'a [i8; GROUP],
    scales: &'a [f32; 8],
    sums: &'a [i16; 16],
}

/// `R` rows times one input.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn dot<D: Dot, Q: Quant<N>, const N: usize, const R: usize>(rows: [&[u8]; R], x: Q8Row<'_>) -> [f32; R] {
    let (quants, quants_rest) = x.quants.as_chunks::<GROUP>();
    let (scales, scales_rest) = x.scales.as_chunks::<8>();
    let (sums, sums_rest) = x.sums.as_chunks::<16>();
    let whole = quants.len();
    let count = whole + usize::from(!quants_rest.is_empty());
    let rows = rows.each(<[u8]>::as_chunks::<N>);
    let groups: [&[[u8; N]]; R] = rows.each(|(groups, _)| &groups[..whole]);
    let mut totals = [0.0; R];
    for start in (0..count).step_by(SEGMENT_GROUPS) {
        let end = count.min(start + SEGMENT_GROUPS);
        let mut lanes = [[vdupq_n_f32(0.0); 2]; R];
        for g in start..end.min(whole) {
            let x = Group { quants: &quants[g], scales: &scales[g], sums: &sums[g] };
            let groups = groups.each(|groups| &groups[g]);
            for group in groups {
                prefetch_ahead(group);
            }
            // SAFETY: as this function's.
            lanes = unsafe { step::<D, Q, N, R>(lanes, groups, &x) };
        }
        if end > whole {
            let x = Group { quants: &padded(quants_rest), scales: &padded(scales_rest), sums: &padded(sums_rest) };
            let ends = rows.each(|(_, rest)| padded(rest));
            // SAFETY: as this function's.
            let next = unsafe { step::<D, Q, N, R>(lanes, ends.each_ref(), &x) };
            for r in 0..R {
                lanes[r] = first_lanes(scales_rest.len(), next[r], lanes[r]);
            }
        }
        for r in 0..R {
            let sum = tree(lanes[r]);
            totals[r] = if start == 0 { sum } else { totals[r] + sum };
        }
    }
    totals
}

/// The first `count` lanes of `a`, the others of `b`.
#[inline]
#[target_feature(enable = "neon")]
fn first_lanes(count: usize, a: Eight, b: Eight) -> Eight {
    let count = vdupq_n_f32(count as f32);
    let index = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0];
    array::of(|i| vbslq_f32(vcltq_f32(load_f32(&index, i * 4), count), a[i], b[i]))
}

/// Adds eight blocks of each row to its eight lanes. This function and the next three are always inlined, for which they may not have
/// target features of their own.
///
/// # Safety
/// The processor has `D`.
#[inline(always)]
unsafe fn step<D: Dot, Q: Quant<N>, const N: usize, const R: usize>(
    lanes: [Eight; R],
    w: [&[u8; N]; R],
    x: &Group<'_>,
) -> [Eight; R] {
    let mut next = lanes;
    // SAFETY: as this function's, and every processor with `D` has NEON.
    unsafe {
        let pairs = pair_sums::<D, Q, N, R>(w, x);
        let scales: Eight = [load_f32(x.scales, 0), load_f32(x.scales, 4)];
        let sums = scaled_sums::<Q::Kind>(scales, x);
        each_row!(ROW, R, {
            let weights = Q::scales(w[ROW]);
            let isums = block_sums::<Q::Kind>(pairs[ROW], weights.factors, x, Q::OFFSET);
            for i in 0..2 {
                let scaled = vmulq_f32(vcvtq_f32_s32(isums[i]), weights.scale[i]);
                let mut lanes = vfmaq_f32(lanes[ROW][i], scaled, scales[i]);
                if Q::Kind::MINIMA != Minima::None {
                    lanes = vfmsq_f32(lanes, weights.minima[0][i], sums[0][i]);
                }
                if Q::Kind::MINIMA == Minima::Halves {
                    lanes = vfmsq_f32(lanes, weights.minima[1][i], sums[1][i]);
                }
                next[ROW][i] = lanes;
            }
        });
    }
    next
}

/// What minima are multiplied with: the scales times the sums of the blocks, or of their first and of their second halves.
///
/// # Safety
/// The processor has NEON.
#[inline(always)]
unsafe fn scaled_sums<K: Kind>(scales: Eight, x: &Group<'_>) -> [Eight; 2] {
    // SAFETY: as this function's.
    unsafe {
        let mut scaled = [[vdupq_n_f32(0.0); 2]; 2];
        for i in 0..2 {
            let sums = load_i16(x.sums, i * 8);
            match K::MINIMA {
                Minima::None => {}
                Minima::Whole => scaled[0][i] = vmulq_f32(scales[i], vcvtq_f32_s32(vpaddlq_s16(sums))),
                Minima::Halves => {
                    for (half, sums) in [vuzp1q_s16(sums, sums), vuzp2q_s16(sums, sums)].into_iter().enumerate() {
                        scaled[half][i] = vmulq_f32(scales[i], vcvtq_f32_s32(vmovl_s16(vget_low_s16(sums))));
                    }
                }
            }
        }
        scaled
    }
}

/// Sums of pairs of blocks, two of which add up to sums of four blocks: with factors those of the blocks' halves.
///
/// Of Q5_K, and of formats with factors, blocks that share bytes and bits of them are next to each other.
///
/// # Safety
/// The processor has `D`.
#[inline(always)]
unsafe fn pair_sums<D: Dot, Q: Quant<N>, const N: usize, const R: usize>(
    w: [&[u8; N]; R],
    x: &Group<'_>,
) -> [[int32x4_t; 4]; R] {
    // SAFETY: as this function's, and every processor with `D` has NEON.
    unsafe {
        let zero = vdupq_n_s32(0);
        let mut sums = [[[zero; 2]; 8]; R];
        let mut pairs = [[zero; 4]; R];
        macro_rules! add {
            ($block:ident) => {
                each_row!(ROW, R, {
                    let [a, b] = Q::quants(w[ROW], $block);
                    let first = D::dot(zero, a, load_i8(x.quants, $block * 32));
                    let from = if Q::Kind::FACTORS { zero } else { first };
                    sums[ROW][$block] = [first, D::dot(from, b, load_i8(x.quants, $block * 32 + 16))];
                });
            };
        }
        if Q::PAIRED {
            unroll!(J, {
                add!(J);
            });
        } else if Q::Kind::FACTORS {
            unroll!(J, { add!(J); }, 0 2 1 3 4 6 5 7);
        } else {
            unroll!(J, { add!(J); }, 0 4 1 5 2 6 3 7);
        }
        each_row!(ROW, R, {
            for pair in 0..4 {
                let [[a, b], [c, d]] = [sums[ROW][2 * pair], sums[ROW][2 * pair + 1]];
                pairs[ROW][pair] = if Q::Kind::FACTORS { fold([a, b, c, d]) } else { vpaddq_s32(b, d) };
            }
        });
        pairs
    }
}

/// Exact integer sums of eight blocks, factors applied and offsets removed.
///
/// # Safety
/// The processor has NEON.
#[inline(always)]
unsafe fn block_sums<K: Kind>(
    mut pairs: [int32x4_t; 4],
    factors: int8x16_t,
    x: &Group<'_>,
    offset: i8,
) -> [int32x4_t; 2] {
    // SAFETY: as this function's.
    unsafe {
        if K::FACTORS {
            let factors = widen(factors);
            for i in 0..4 {
                let sums = load_i16(x.sums, i / 2 * 8);
                let sums = if i % 2 == 0 { vmovl_s16(vget_low_s16(sums)) } else { vmovl_high_s16(sums) };
                let reduced = vsubq_s32(pairs[i], vmulq_n_s32(sums, i32::from(offset)));
                pairs[i] = vmulq_s32(if offset == 0 { pairs[i] } else { reduced }, factors[i]);
            }
        }
        let sums = [vpaddq_s32(pairs[0], pairs[1]), vpaddq_s32(pairs[2], pairs[3])];
        if K::FACTORS || offset == 0 {
            return sums;
        }
        let offsets = [0, 8].each(|at| vmulq_n_s32(vpaddlq_s16(load_i16(x.sums, at)), i32::from(offset)));
        [vsubq_s32(sums[0], offsets[0]), vsubq_s32(sums[1], offsets[1])]
    }
}

/// Asks for the bytes [`AHEAD`] of a group.
#[inline]
fn prefetch_ahead<const N: usize>(group: &[u8; N]) {
    let ahead = group.as_ptr().wrapping_add(AHEAD);
    for line in 0..N.div_ceil(64) {
        prefetch(ahead.wrapping_add(line * 64));
    }
}
