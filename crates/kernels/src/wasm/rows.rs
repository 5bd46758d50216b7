//! One input row: weights are read once, in the file's layout. Lane = block.
//!
//! What depends on the input alone is prepared once for all rows.

use std::arch::wasm32::*;
use std::cell::RefCell;
use std::hint::black_box;

use super::fold::{add_pairs, tree};
use super::format::{Eight, Quant, Range};
use super::half_table::HalfTable;
use super::multiply::{Multiply, Products};
use super::registers::load;
use crate::Q8Row;
use crate::kind::{GROUP, Kind, padded};
use crate::order::SEGMENT;
use crate::weights::Minima;

const SEGMENT_GROUPS: usize = SEGMENT / GROUP;

/// A group of activations.
#[derive(Clone)]
struct Group {
    inputs: Inputs,
    scales: Eight,
    /// What minima are multiplied with: the scales times the sums of the blocks, or of their first and of their second halves.
    scaled: [Eight; 2],
    /// Sums of halves of blocks.
    sums: [v128; 2],
    /// What the sums of products lack, lane = block.
    missing: Eight,
}

/// The activations of a group, as they are multiplied: two registers for 16 of them.
pub type Inputs = [[v128; 2]; GROUP / 16];

/// Halves, and words that are one.
type Constants = (HalfTable, v128);

const ZERO: v128 = i32x4(0, 0, 0, 0);
const EMPTY: Group = Group {
    inputs: [[ZERO; 2]; GROUP / 16],
    scales: [ZERO; 2],
    scaled: [[ZERO; 2]; 2],
    sums: [ZERO; 2],
    missing: [ZERO; 2],
};

thread_local! {
    static PREPARED: RefCell<Vec<Group>> = const { RefCell::new(Vec::new()) };
}

/// `out[o] = w[o] . x`.
pub fn rows<M: Multiply, Q: Quant<N>, const N: usize>(out: &mut [f32], w: &[u8], row_bytes: usize, x: Q8Row<'_>) {
    if Q::RANGE == Range::Signed {
        rows_by::<M::Signed, Q, N>(out, w, row_bytes, x);
    } else {
        rows_by::<M::Unsigned, Q, N>(out, w, row_bytes, x);
    }
}

/// Rows of the two halves of `w` alternate: two streams from memory are faster than one.
#[inline(always)]
fn rows_by<P: Products, Q: Quant<N>, const N: usize>(out: &mut [f32], w: &[u8], row_bytes: usize, x: Q8Row<'_>) {
    PREPARED.with_borrow_mut(|prepared| {
        let count = x.quants.len().div_ceil(GROUP);
        if prepared.len() < count {
            prepared.resize(count, EMPTY);
        }
        let groups = &mut prepared[..count];
        prepare::<P, Q, N>(groups, x);
        let (halves, ones) = (HalfTable::new(), black_box(i16x8_splat(1)));
        let half = out.len().div_ceil(2);
        let mut end = [0; N];
        for i in 0..out.len() {
            let o = i / 2 + i % 2 * half;
            out[o] = dot::<P, Q, N>(&w[o * row_bytes..][..row_bytes], groups, &mut end, (halves, ones));
        }
    });
}

/// What is the same for all rows.
#[inline(always)]
fn prepare<P: Products, Q: Quant<N>, const N: usize>(groups: &mut [Group], x: Q8Row<'_>) {
    let (quants, quants_rest) = x.quants.as_chunks::<GROUP>();
    let (scales, scales_rest) = x.scales.as_chunks::<8>();
    let (sums, sums_rest) = x.sums.as_chunks::<16>();
    for (g, group) in groups.iter_mut().enumerate() {
        if g < quants.len() {
            prepare_group::<P, Q, N>(group, &quants[g], &scales[g], &sums[g]);
        } else {
            prepare_group::<P, Q, N>(group, &padded(quants_rest), &padded(scales_rest), &padded(sums_rest));
        }
    }
}

#[inline(always)]
fn prepare_group<P: Products, Q: Quant<N>, const N: usize>(
    group: &mut Group,
    quants: &[i8; GROUP],
    scales: &[f32; 8],
    sums: &[i16; 16],
) {
    for (i, inputs) in group.inputs.iter_mut().enumerate() {
        *inputs = P::inputs(load(quants, i * 16));
    }
    group.scales = [load(scales, 0), load(scales, 4)];
    group.sums = [load(sums, 0), load(sums, 8)];
    for i in 0..2 {
        let (scales, sums) = (group.scales[i], group.sums[i]);
        let whole = i32x4_extadd_pairwise_i16x8(sums);
        match Q::Kind::MINIMA {
            Minima::None => {}
            Minima::Whole => group.scaled[0][i] = f32x4_mul(scales, f32x4_convert_i32x4(whole)),
            Minima::Halves => {
                for (half, sums) in [i32x4_shr(i32x4_shl(sums, 16), 16), i32x4_shr(sums, 16)].into_iter().enumerate() {
                    group.scaled[half][i] = f32x4_mul(scales, f32x4_convert_i32x4(sums));
                }
            }
        }
        let offsets = i32x4_mul(whole, i32x4_splat(-i32::from(Q::OFFSET)));
        let of_block = |block: usize| P::missing([group.inputs[2 * block], group.inputs[2 * block + 1]]);
        let four = i32x4(of_block(4 * i), of_block(4 * i + 1), of_block(4 * i + 2), of_block(4 * i + 3));
        group.missing[i] = i32x4_add(offsets, four);
    }
}

/// A row times the input. A last group that is not whole gets zeros in `end`: no lane is -0, so they add nothing.
#[inline(always)]
fn dot<P: Products, Q: Quant<N>, const N: usize>(
    row: &[u8],
    x: &[Group],
    end: &mut [u8; N],
    constants: Constants,
) -> f32 {
    let (whole, rest) = row.as_chunks::<N>();
    end[..rest.len()].copy_from_slice(rest);
    let mut total = 0.0;
    for start in (0..x.len()).step_by(SEGMENT_GROUPS) {
        let mut lanes = [f32x4_splat(0.0); 2];
        for g in start..x.len().min(start + SEGMENT_GROUPS) {
            // A pointer that the compiler knows from the last turn has its offsets added by instructions.
            let x = black_box(&x[g]);
            lanes = step::<P, Q, N>(lanes, whole.get(g).unwrap_or(end), x, constants);
        }
        total = if start == 0 { tree(lanes) } else { total + tree(lanes) };
    }
    total
}

/// Adds eight blocks to eight lanes.
#[inline(always)]
fn step<P: Products, Q: Quant<N>, const N: usize>(
    lanes: Eight,
    w: &[u8; N],
    x: &Group,
    (halves, ones): Constants,
) -> Eight {
    let scales = Q::scales(w, halves);
    let sums = if Q::Kind::FACTORS {
        sums_of_halves::<P, Q, N>(w, x, scales.factors)
    } else {
        sums_of_blocks::<P, Q, N>(w, x, ones)
    };
    let add = |i: usize| {
        let scaled = f32x4_mul(f32x4_convert_i32x4(sums[i]), scales.scale[i]);
        let mut lanes = f32x4_add(lanes[i], f32x4_mul(scaled, x.scales[i]));
        if Q::Kind::MINIMA != Minima::None {
            lanes = f32x4_sub(lanes, f32x4_mul(scales.minima[0][i], x.scaled[0][i]));
        }
        if Q::Kind::MINIMA == Minima::Halves {
            lanes = f32x4_sub(lanes, f32x4_mul(scales.minima[1][i], x.scaled[1][i]));
        }
        lanes
    };
    [add(0), add(1)]
}

/// Exact integer sums of eight blocks, offsets removed.
#[inline(always)]
fn sums_of_blocks<P: Products, Q: Quant<N>, const N: usize>(w: &[u8; N], x: &Group, ones: v128) -> [v128; 2] {
    let block = |block: usize| {
        let [a, b] = Q::quants(w, block);
        P::block(Q::RANGE, [a, b], [x.inputs[2 * block], x.inputs[2 * block + 1]], ones)
    };
    let four = |i: usize| {
        let pairs = [[block(4 * i), block(4 * i + 1)], [block(4 * i + 2), block(4 * i + 3)]];
        let sums = P::fold(Q::RANGE, pairs);
        if Q::OFFSET == 0 && !P::MISSES { sums } else { i32x4_add(sums, x.missing[i]) }
    };
    [four(0), four(1)]
}

/// The same, with the factors of halves applied.
#[inline(always)]
fn sums_of_halves<P: Products, Q: Quant<N>, const N: usize>(w: &[u8; N], x: &Group, factors: v128) -> [v128; 2] {
    let factors = [i16x8_extend_low_i8x16(factors), i16x8_extend_high_i8x16(factors)];
    let block = |block: usize, factors: v128| {
        let [a, b] = Q::quants(w, block);
        i32x4_dot_i16x8(P::halves([a, b], [x.inputs[2 * block], x.inputs[2 * block + 1]]), factors)
    };
    // Each factor four times: two instructions, and no constant as for a shuffle that isn't one.
    let two = |first: usize, twice: v128| {
        let a = block(first, i32x4_shuffle::<0, 0, 1, 1>(twice, twice));
        add_pairs(a, block(first + 1, i32x4_shuffle::<2, 2, 3, 3>(twice, twice)))
    };
    let four = |i: usize| {
        let of = factors[i];
        let ab = two(4 * i, i16x8_shuffle::<0, 8, 1, 9, 2, 10, 3, 11>(of, of));
        let sums = add_pairs(ab, two(4 * i + 2, i16x8_shuffle::<4, 12, 5, 13, 6, 14, 7, 15>(of, of)));
        if Q::OFFSET == 0 {
            return sums;
        }
        let offsets = i32x4_dot_i16x8(of, x.sums[i]);
        i32x4_sub(sums, i32x4_mul(offsets, i32x4_splat(i32::from(Q::OFFSET))))
    };
    [four(0), four(1)]
}
