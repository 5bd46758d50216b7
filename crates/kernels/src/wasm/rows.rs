//! One input row: weights are read once, in the file's layout. Lane = block.

use std::arch::wasm32::*;

use super::fold::{add_pairs, fold, tree};
use super::format::{Eight, Quant, Range};
use super::multiply::{Multiply, Words, add, weights};
use super::registers::load;
use crate::Q8Row;
use crate::kind::{GROUP, Kind, padded};
use crate::order::SEGMENT;
use crate::unroll::unroll;
use crate::weights::Minima;

const SEGMENT_GROUPS: usize = SEGMENT / GROUP;

/// `out[o] = w[o] . x`. Two rows go together where the sums of both stay in registers.
pub fn rows<M: Multiply, Q: Quant<N>, const N: usize>(out: &mut [f32], w: &[u8], row_bytes: usize, x: Q8Row<'_>) {
    let row = |o: usize| &w[o * row_bytes..][..row_bytes];
    if Q::Kind::FACTORS {
        for (o, out) in out.iter_mut().enumerate() {
            [*out] = dot::<M, Q, N, 1>([row(o)], x);
        }
        return;
    }
    for (pair, out) in out.chunks_mut(2).enumerate() {
        // A row without a second one goes with itself.
        let sums = dot::<M, Q, N, 2>([row(2 * pair), row(2 * pair + out.len() - 1)], x);
        out.copy_from_slice(&sums[..out.len()]);
    }
}

/// A group of activations.
struct Group<'a> {
    quants: &'a [i8; GROUP],
    scales: &'a [f32; 8],
    sums: &'a [i16; 16],
}

/// `R` rows times one input.
#[inline(always)]
fn dot<M: Multiply, Q: Quant<N>, const N: usize, const R: usize>(rows: [&[u8]; R], x: Q8Row<'_>) -> [f32; R] {
    let (quants, quants_rest) = x.quants.as_chunks::<GROUP>();
    let (scales, scales_rest) = x.scales.as_chunks::<8>();
    let (sums, sums_rest) = x.sums.as_chunks::<16>();
    let whole = quants.len();
    let count = whole + usize::from(!quants_rest.is_empty());
    let rows = rows.map(<[u8]>::as_chunks::<N>);
    let groups: [&[[u8; N]]; R] = rows.map(|(groups, _)| &groups[..whole]);
    let mut totals = [0.0; R];
    for start in (0..count).step_by(SEGMENT_GROUPS) {
        let end = count.min(start + SEGMENT_GROUPS);
        let mut lanes = [[f32x4_splat(0.0); 2]; R];
        for g in start..end.min(whole) {
            let x = Group { quants: &quants[g], scales: &scales[g], sums: &sums[g] };
            lanes = step::<M, Q, N, R>(lanes, groups.map(|groups| &groups[g]), &x);
        }
        if end > whole {
            let x = Group { quants: &padded(quants_rest), scales: &padded(scales_rest), sums: &padded(sums_rest) };
            let ends = rows.map(|(_, rest)| padded(rest));
            let next = step::<M, Q, N, R>(lanes, ends.each_ref(), &x);
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
#[inline(always)]
fn first_lanes(count: usize, a: Eight, b: Eight) -> Eight {
    let count = i32x4_splat(count as i32);
    let index = [i32x4(0, 1, 2, 3), i32x4(4, 5, 6, 7)];
    [0, 1].map(|i| v128_bitselect(a[i], b[i], i32x4_lt(index[i], count)))
}

/// Adds eight blocks of each row to its eight lanes.
#[inline(always)]
fn step<M: Multiply, Q: Quant<N>, const N: usize, const R: usize>(
    lanes: [Eight; R],
    w: [&[u8; N]; R],
    x: &Group<'_>,
) -> [Eight; R] {
    let pairs = if M::SYMMETRIC && Q::RANGE == Range::Full && has_least::<Q, N, R>(w) {
        pair_sums::<Words, Q, N, R>(w, x)
    } else {
        pair_sums::<M, Q, N, R>(w, x)
    };
    let scales: Eight = [load(x.scales, 0), load(x.scales, 4)];
    let sums = scaled_sums::<Q::Kind>(scales, x);
    let mut next = lanes;
    for r in 0..R {
        let weights = Q::scales(w[r]);
        let isums = block_sums::<Q::Kind>(pairs[r], weights.factors, x, Q::OFFSET);
        for i in 0..2 {
            let scaled = f32x4_mul(f32x4_convert_i32x4(isums[i]), weights.scale[i]);
            let mut lanes = f32x4_add(lanes[r][i], f32x4_mul(scaled, scales[i]));
            if Q::Kind::MINIMA != Minima::None {
                lanes = f32x4_sub(lanes, f32x4_mul(weights.minima[0][i], sums[0][i]));
            }
            if Q::Kind::MINIMA == Minima::Halves {
                lanes = f32x4_sub(lanes, f32x4_mul(weights.minima[1][i], sums[1][i]));
            }
            next[r][i] = lanes;
        }
    }
    next
}

/// Whether any quant is -128. Files have it seldom: the usual encoders make none.
#[inline(always)]
fn has_least<Q: Quant<N>, const N: usize, const R: usize>(w: [&[u8; N]; R]) -> bool {
    let mut least = i8x16_splat(0);
    for w in w {
        unroll!(J, {
            let [a, b] = Q::quants(w, J);
            least = i8x16_min(least, i8x16_min(a, b));
        });
    }
    v128_any_true(i8x16_eq(least, i8x16_splat(i8::MIN)))
}

/// What minima are multiplied with: the scales times the sums of the blocks, or of their first and of their second halves.
#[inline(always)]
fn scaled_sums<K: Kind>(scales: Eight, x: &Group<'_>) -> [Eight; 2] {
    let mut scaled = [[f32x4_splat(0.0); 2]; 2];
    for i in 0..2 {
        let sums = load(x.sums, i * 8);
        match K::MINIMA {
            Minima::None => {}
            Minima::Whole => {
                scaled[0][i] = f32x4_mul(scales[i], f32x4_convert_i32x4(i32x4_extadd_pairwise_i16x8(sums)));
            }
            Minima::Halves => {
                for (half, sums) in [i32x4_shr(i32x4_shl(sums, 16), 16), i32x4_shr(sums, 16)].into_iter().enumerate() {
                    scaled[half][i] = f32x4_mul(scales[i], f32x4_convert_i32x4(sums));
                }
            }
        }
    }
    scaled
}

/// Sums of pairs of blocks, two of which add up to sums of four blocks: with factors those of the blocks' halves.
#[inline(always)]
fn pair_sums<M: Multiply, Q: Quant<N>, const N: usize, const R: usize>(
    w: [&[u8; N]; R],
    x: &Group<'_>,
) -> [[v128; 4]; R] {
    let zero = i32x4_splat(0);
    let mut pairs = [[zero; 4]; R];
    let dot = |sums: v128, w: v128, x: M::Inputs| add::<M>(Q::RANGE, sums, weights::<M>(Q::RANGE, w), x);
    unroll!(PAIR, {
        let x = [0, 16, 32, 48].map(|at| M::inputs(load(x.quants, PAIR * 64 + at)));
        for r in 0..R {
            let [a, b] = Q::quants(w[r], 2 * PAIR);
            let [c, d] = Q::quants(w[r], 2 * PAIR + 1);
            let (a, c) = (dot(zero, a, x[0]), dot(zero, c, x[2]));
            pairs[r][PAIR] = if Q::Kind::FACTORS {
                fold([a, dot(zero, b, x[1]), c, dot(zero, d, x[3])])
            } else {
                add_pairs(dot(a, b, x[1]), dot(c, d, x[3]))
            };
        }
    }, 0 1 2 3);
    pairs
}

/// Exact integer sums of eight blocks, factors applied and offsets removed.
#[inline(always)]
fn block_sums<K: Kind>(mut pairs: [v128; 4], factors: v128, x: &Group<'_>, offset: i8) -> [v128; 2] {
    let offset = i32::from(offset);
    if K::FACTORS {
        let factors = super::panel::widen(factors);
        for i in 0..4 {
            let sums = load(x.sums, i / 2 * 8);
            let sums = if i % 2 == 0 { i32x4_extend_low_i16x8(sums) } else { i32x4_extend_high_i16x8(sums) };
            let reduced = i32x4_sub(pairs[i], i32x4_mul(sums, i32x4_splat(offset)));
            pairs[i] = i32x4_mul(if offset == 0 { pairs[i] } else { reduced }, factors[i]);
        }
    }
    let sums = [add_pairs(pairs[0], pairs[1]), add_pairs(pairs[2], pairs[3])];
    if K::FACTORS || offset == 0 {
        return sums;
    }
    [0, 1].map(|i| {
        let offsets = i32x4_mul(i32x4_extadd_pairwise_i16x8(load(x.sums, i * 8)), i32x4_splat(offset));
        i32x4_sub(sums[i], offsets)
    })
}
