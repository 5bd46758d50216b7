//! Two and three inputs: as `row` has two rows side by side, which each input meets in turn.

use std::arch::x86_64::*;

use super::input::{Input, for_two, with_inputs};
use super::row::{Row, SEGMENT_GROUPS, pair, step};
use crate::weights::row;
use crate::x86::ahead::{Ahead, ROWS};
use crate::x86::avx2::fold::tree;
use crate::x86::avx2::format::Group;
use crate::{OutTile, Q8Row};

/// `out[t * stride + o] = w[o] . x[t]` for `outputs` weight rows.
///
/// [`super::row::rows`] of one input is a function of its own, since this one, of one input, is 4 % slower.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub fn several<R: Row, const T: usize>(
    out: &mut OutTile<'_>,
    outputs: usize,
    (w, row_bytes): (&[u8], usize),
    x: [Q8Row<'_>; T],
) {
    let blocks = x[0].scales.len();
    let arrange = |quants: &_, scales: &_, sums: &_| for_two::<R>(quants, scales, sums);
    with_inputs(x, arrange, |x| {
        let ahead = Ahead::new(ROWS);
        let (half, stride, out) = (outputs / 2, out.stride, &mut *out.values);
        let row = |o: usize| row(w, row_bytes, o);
        for o in 0..half {
            for (t, sums) in dots::<R, T>([row(o), row(o + half)], x, blocks, ahead).into_iter().enumerate() {
                [out[t * stride + o], out[t * stride + o + half]] = sums;
            }
        }
        if half * 2 < outputs {
            for (t, [sum, _]) in dots::<R, T>([row(half * 2); 2], x, blocks, ahead).into_iter().enumerate() {
                out[t * stride + half * 2] = sum;
            }
        }
    });
}

/// Inputs come after each other within the blocks of a group, so that these are unpacked once for all.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn dots<R: Row, const T: usize>(rows: [&[u8]; 2], x: [&[Input]; T], blocks: usize, ahead: Ahead) -> [[f32; 2]; T] {
    let (whole, count) = (blocks / 8, x[0].len());
    let rows = rows.map(R::Group::split);
    let groups = rows.map(|(groups, _)| &groups[..whole]);
    // All are as long: said once, not checked for each.
    let x = x.map(|x| &x[..count]);
    let mut totals = [[0.0; 2]; T];
    for start in (0..count).step_by(SEGMENT_GROUPS) {
        let end = count.min(start + SEGMENT_GROUPS);
        let mut lanes = [_mm512_setzero_ps(); T];
        for g in start..end.min(whole) {
            let w = groups.map(|groups| &groups[g]);
            w.iter().for_each(|w| ahead.fetch(*w));
            for t in 0..T {
                lanes[t] = step::<R>(lanes[t], w, pair::<R>(w), &x[t][g]);
            }
        }
        if end > whole {
            let live = (1u16 << (blocks % 8)) - 1;
            let mut ends = [R::Group::PADDING; 2];
            for (end, (_, rest)) in ends.iter_mut().zip(rows) {
                end.bytes()[..rest.len()].copy_from_slice(rest);
            }
            for t in 0..T {
                let next = step::<R>(lanes[t], ends.each_ref(), pair::<R>(ends.each_ref()), &x[t][whole]);
                lanes[t] = _mm512_mask_mov_ps(lanes[t], live | live << 8, next);
            }
        }
        for (totals, lanes) in totals.iter_mut().zip(lanes) {
            let sums = [tree(_mm512_castps512_ps256(lanes)), tree(_mm512_extractf32x8_ps::<1>(lanes))];
            for (total, sum) in totals.iter_mut().zip(sums) {
                *total = if start == 0 { sum } else { *total + sum };
            }
        }
    }
    totals
}
