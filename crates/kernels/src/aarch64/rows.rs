//! One input row: weights are read once, in the file's layout, as fast as memory gives them. Lane = block.

use std::arch::aarch64::*;

use super::fold::{fold, tree};
use super::format::{Eight, GROUP, Kind, Quant, unroll};
use super::instructions::prefetch;
use super::integer::Dot;
use super::panel::widen;
use super::registers::{load_f32, load_i8, load_i16};
use crate::Q8Row;
use crate::order::SEGMENT;
use crate::weights::Minima;

/// Bytes that prefetches run ahead: what was best on x86-64, not measured here.
const AHEAD: usize = 2048;
const SEGMENT_GROUPS: usize = SEGMENT / GROUP;

/// `out[o] = w[o] . x`.
///
/// Rows of the two halves of `w` alternate: two streams from memory are faster than one.
///
/// # Safety
/// The processor has `D`.
#[target_feature(enable = "neon")]
pub unsafe fn rows<D: Dot, Q: Quant<N>, const N: usize>(out: &mut [f32], w: &[u8], row_bytes: usize, x: Q8Row<'_>) {
    let half = out.len() / 2;
    let row = |o: usize| &w[o * row_bytes..][..row_bytes];
    for o in 0..half {
        // SAFETY: as this function's.
        let [a, b] = unsafe { dot::<D, Q, N, 2>([row(o), row(o + half)], x) };
        out[o] = a;
        out[o + half] = b;
    }
    if half * 2 < out.len() {
        // SAFETY: as this function's.
        let [a] = unsafe { dot::<D, Q, N, 1>([row(half * 2)], x) };
        out[half * 2] = a;
    }
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
    let rows = rows.map(<[u8]>::as_chunks::<N>);
    let groups: [&[[u8; N]]; R] = std::array::from_fn(|r| &rows[r].0[..whole]);
    let mut totals = [0.0; R];
    for start in (0..count).step_by(SEGMENT_GROUPS) {
        let end = count.min(start + SEGMENT_GROUPS);
        let mut lanes = [[vdupq_n_f32(0.0); 2]; R];
        for g in start..end.min(whole) {
            let x = Group { quants: &quants[g], scales: &scales[g], sums: &sums[g] };
            for r in 0..R {
                prefetch_ahead(&groups[r][g]);
                // SAFETY: as this function's.
                lanes[r] = unsafe { step::<D, Q, N>(lanes[r], &groups[r][g], &x) };
            }
        }
        if end > whole {
            let x = Group { quants: &padded(quants_rest), scales: &padded(scales_rest), sums: &padded(sums_rest) };
            for r in 0..R {
                // SAFETY: as this function's.
                let next = unsafe { step::<D, Q, N>(lanes[r], &padded(rows[r].1), &x) };
                lanes[r] = first_lanes(scales_rest.len(), next, lanes[r]);
            }
        }
        for r in 0..R {
            let sum = tree(lanes[r]);
            totals[r] = if start == 0 { sum } else { totals[r] + sum };
        }
    }
    totals
}

/// The end of a row and zeros.
fn padded<T: Copy + Default, const N: usize>(rest: &[T]) -> [T; N] {
    let mut group = [T::default(); N];
    group[..rest.len()].copy_from_slice(rest);
    group
}

/// The first `count` lanes of `a`, the others of `b`.
#[inline]
#[target_feature(enable = "neon")]
fn first_lanes(count: usize, a: Eight, b: Eight) -> Eight {
    let count = vdupq_n_f32(count as f32);
    let index = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0];
    std::array::from_fn(|i| vbslq_f32(vcltq_f32(load_f32(&index, i * 4), count), a[i], b[i]))
}

/// Adds eight blocks to eight lanes.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn step<D: Dot, Q: Quant<N>, const N: usize>(lanes: Eight, w: &[u8; N], x: &Group<'_>) -> Eight {
    // SAFETY: every processor with `D` has NEON.
    let weights = unsafe { Q::scales(w) };
    // SAFETY: as this function's.
    let sums = unsafe { group_sums::<D, Q, N>(w, weights.factors, x) };
    std::array::from_fn(|i| {
        let scales = load_f32(x.scales, i * 4);
        let sums_of = [load_i16(x.sums, i * 8); 2];
        let scaled = vmulq_f32(vcvtq_f32_s32(sums[i]), weights.scale[i]);
        let lanes = vfmaq_f32(lanes[i], scaled, scales);
        match Q::Kind::MINIMA {
            Minima::None => lanes,
            Minima::Whole => {
                let sums = vcvtq_f32_s32(vpaddlq_s16(sums_of[0]));
                vfmsq_f32(lanes, weights.minima[0][i], vmulq_f32(scales, sums))
            }
            Minima::Halves => {
                let [first, second] = [vuzp1q_s16(sums_of[0], sums_of[1]), vuzp2q_s16(sums_of[0], sums_of[1])]
                    .map(|sums| vmulq_f32(scales, vcvtq_f32_s32(vmovl_s16(vget_low_s16(sums)))));
                let lanes = vfmsq_f32(lanes, weights.minima[0][i], first);
                vfmsq_f32(lanes, weights.minima[1][i], second)
            }
        }
    })
}

/// Exact integer sums of eight blocks, factors applied and offsets removed.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn group_sums<D: Dot, Q: Quant<N>, const N: usize>(
    w: &[u8; N],
    factors: int8x16_t,
    x: &Group<'_>,
) -> [int32x4_t; 2] {
    let zero = vdupq_n_s32(0);
    let mut halves = [[zero; 2]; 8];
    unroll!(J, {
        // SAFETY: every processor with `D` has NEON.
        let [a, b] = unsafe { Q::quants(w, J) };
        // SAFETY: as this function's.
        unsafe {
            let first = D::dot(zero, a, load_i8(x.quants, J * 32));
            let from = if Q::Kind::FACTORS { zero } else { first };
            halves[J] = [first, D::dot(from, b, load_i8(x.quants, J * 32 + 16))];
        }
    });
    if !Q::Kind::FACTORS {
        let [a, b, c, d, e, f, g, h] = halves.map(|[_, both]| both);
        return [(0, [a, b, c, d]), (8, [e, f, g, h])].map(|(at, blocks)| {
            let offset = vmulq_n_s32(vpaddlq_s16(load_i16(x.sums, at)), i32::from(Q::OFFSET));
            if Q::OFFSET == 0 { fold(blocks) } else { vsubq_s32(fold(blocks), offset) }
        });
    }
    let factors = widen(factors);
    let pairs: [int32x4_t; 4] = std::array::from_fn(|i| {
        // Both halves of two blocks.
        let [[a, b], [c, d]] = [halves[2 * i], halves[2 * i + 1]];
        let sums = load_i16(x.sums, i / 2 * 8);
        let sums = if i % 2 == 0 { vmovl_s16(vget_low_s16(sums)) } else { vmovl_high_s16(sums) };
        vmulq_s32(vmlsq_n_s32(fold([a, b, c, d]), sums, i32::from(Q::OFFSET)), factors[i])
    });
    [vpaddq_s32(pairs[0], pairs[1]), vpaddq_s32(pairs[2], pairs[3])]
}

/// Asks for the bytes [`AHEAD`] of a group.
#[inline]
fn prefetch_ahead<const N: usize>(group: &[u8; N]) {
    let ahead = group.as_ptr().wrapping_add(AHEAD);
    for line in 0..N.div_ceil(64) {
        prefetch(ahead.wrapping_add(line * 64));
    }
}
