//! Tiles: a panel of eight rows times a few inputs over a segment. Lane = row.

use std::arch::wasm32::*;

use super::multiply::Multiply;
use super::panel::{Block, Half, QUADS};
use super::registers::load;
use crate::kind::Kind;
use crate::order::{LANES, SEGMENT_BLOCKS};
use crate::weights::Minima;

/// Four numbers for each input of a tile and each four rows.
pub type Tile<const T: usize> = [[v128; QUADS]; T];

/// `T` inputs over a segment, block by block.
pub struct Inputs<'a, const T: usize> {
    pub quants: [&'a [[i8; 32]]; T],
    pub scales: &'a [[f32; SEGMENT_BLOCKS]; T],
    /// Scales times sums of quants: of the whole blocks, or of their first and of their second halves.
    pub sums: [&'a [[f32; SEGMENT_BLOCKS]; T]; 2],
    /// What sums of products begin with, so that they are those of weights less their offset: of both halves.
    pub starts: &'a [[[i32; 2]; SEGMENT_BLOCKS]; T],
}

/// The products over the segment; place = input, lane = row.
///
/// The blocks of one of the order's lanes after the other. Knows the kind of a format and not the format.
pub fn tile<M: Multiply, K: Kind, const SIGNED: bool, const T: usize>(panel: &[Block], x: &Inputs<'_, T>) -> Tile<T> {
    let mut lanes = [[[f32x4_splat(0.0); QUADS]; T]; LANES];
    for (j, lane) in lanes.iter_mut().enumerate() {
        let mut total = [[f32x4_splat(0.0); QUADS]; T];
        for b in (j..panel.len()).step_by(LANES) {
            add_block::<M, K, SIGNED, T>(&mut total, &panel[b], b, x);
        }
        *lane = total;
    }
    let mut sum = [[f32x4_splat(0.0); QUADS]; T];
    for t in 0..T {
        for q in 0..QUADS {
            let [a, b, c, d, e, f, g, h] = lanes.each_ref().map(|lane| lane[t][q]);
            let even = f32x4_add(f32x4_add(a, e), f32x4_add(c, g));
            let odd = f32x4_add(f32x4_add(b, f), f32x4_add(d, h));
            sum[t][q] = f32x4_add(even, odd);
        }
    }
    sum
}

#[inline(always)]
fn add_block<M: Multiply, K: Kind, const SIGNED: bool, const T: usize>(
    total: &mut Tile<T>,
    block: &Block,
    b: usize,
    x: &Inputs<'_, T>,
) {
    let sums =
        block_sums::<M, K, SIGNED, T>(block, x.quants.map(|quants| &quants[b]), x.starts.each_ref().map(|s| s[b]));
    for t in 0..T {
        for q in 0..QUADS {
            let of_input = |inputs: &[[f32; SEGMENT_BLOCKS]; T]| f32x4_splat(inputs[t][b]);
            let scaled = f32x4_mul(f32x4_convert_i32x4(sums[t][q]), load(&block.scale[q], 0));
            let mut next = f32x4_add(total[t][q], f32x4_mul(scaled, of_input(x.scales)));
            if K::MINIMA != Minima::None {
                next = f32x4_sub(next, f32x4_mul(load(&block.minima[0][q], 0), of_input(x.sums[0])));
            }
            if K::MINIMA == Minima::Halves {
                next = f32x4_sub(next, f32x4_mul(load(&block.minima[1][q], 0), of_input(x.sums[1])));
            }
            total[t][q] = next;
        }
    }
}

/// Exact sums of a block, its factors applied.
#[inline(always)]
fn block_sums<M: Multiply, K: Kind, const SIGNED: bool, const T: usize>(
    block: &Block,
    x: [&[i8; 32]; T],
    starts: [[i32; 2]; T],
) -> Tile<T> {
    let [first, second] = [0, 1].map(|half| starts.map(|start| [i32x4_splat(start[half]); QUADS]));
    let first = add_half::<M, SIGNED, T>(first, &block.quants[0], x.map(|x| load(x, 0)));
    if !K::FACTORS {
        return add_half::<M, SIGNED, T>(first, &block.quants[1], x.map(|x| load(x, 16)));
    }
    let second = add_half::<M, SIGNED, T>(second, &block.quants[1], x.map(|x| load(x, 16)));
    let mut sums = first;
    for t in 0..T {
        for q in 0..QUADS {
            let [a, b] =
                [(first, 0), (second, 1)].map(|(sums, half)| i32x4_mul(sums[t][q], load(&block.factors[half][q], 0)));
            sums[t][q] = i32x4_add(a, b);
        }
    }
    sums
}

/// 16 columns of all rows times those of every input.
#[inline(always)]
fn add_half<M: Multiply, const SIGNED: bool, const T: usize>(sums: Tile<T>, w: &Half, x: [v128; T]) -> Tile<T> {
    let x = x.map(|x| M::inputs(x));
    let sums = step::<M, SIGNED, 0, T>(sums, w, x);
    let sums = step::<M, SIGNED, 1, T>(sums, w, x);
    let sums = step::<M, SIGNED, 2, T>(sums, w, x);
    step::<M, SIGNED, 3, T>(sums, w, x)
}

/// Four columns of all rows times those of every input.
#[inline(always)]
fn step<M: Multiply, const SIGNED: bool, const K: usize, const T: usize>(
    mut sums: Tile<T>,
    w: &Half,
    x: [M::Inputs; T],
) -> Tile<T> {
    let w: [M::Weights; QUADS] = std::array::from_fn(|q| {
        let w = load(&w[q][K], 0);
        if SIGNED { M::signed_weights(w) } else { M::weights(w) }
    });
    for t in 0..T {
        let x = M::spread::<K>(x[t]);
        for q in 0..QUADS {
            sums[t][q] = if SIGNED { M::add_signed(sums[t][q], w[q], x) } else { M::add(sums[t][q], w[q], x) };
        }
    }
    sums
}
