//! Tiles: a panel of eight rows times a few inputs over a segment. Lane = row.

use std::arch::wasm32::*;
use std::hint::black_box;

use super::multiply::{Fours, Multiply};
use super::panel::{Block, Half, QUADS};
use super::registers::load;
use crate::kind::Kind;
use crate::order::LANES;
use crate::weights::Minima;

/// Four numbers for each input of a tile and each four rows.
pub type Tile<const T: usize> = [[v128; QUADS]; T];

/// Inputs of a tile at most: with eight rows 8 sums, which leaves half of 16 registers for what is multiplied.
pub const INPUTS: usize = 4;

/// A block of each input of a tile.
#[derive(Clone, Copy)]
pub struct Given {
    pub fours: [Fours; INPUTS],
    pub scales: [f32; INPUTS],
    /// Scales times sums of quants: of the whole block, or of its first and of its second half.
    pub sums: [[f32; INPUTS]; 2],
    /// What sums of products begin with, so that they are those of weights less their offset: of both halves.
    pub starts: [[i32; INPUTS]; 2],
}

impl Given {
    pub const NONE: Given =
        Given { fours: [[0; 16]; INPUTS], scales: [0.0; INPUTS], sums: [[0.0; INPUTS]; 2], starts: [[0; INPUTS]; 2] };
}

/// The products over the segment; place = input, lane = row.
///
/// The blocks of one of the order's lanes after the other. Knows the kind of a format and not the format.
pub fn tile<M: Multiply, K: Kind, const T: usize>(panel: &[Block], x: &[Given]) -> Tile<T> {
    let mut lanes = [[[f32x4_splat(0.0); QUADS]; T]; LANES];
    for (j, lane) in lanes.iter_mut().enumerate() {
        let mut total = [[f32x4_splat(0.0); QUADS]; T];
        for b in (j..panel.len()).step_by(LANES) {
            add_block::<M, K, T>(&mut total, &panel[b], b, x);
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
fn add_block<M: Multiply, K: Kind, const T: usize>(total: &mut Tile<T>, block: &Block, b: usize, x: &[Given]) {
    // Pointers that the compiler knows from the last turn have their offsets added by instructions.
    let (block, given) = (black_box(block), black_box(&x[b]));
    let sums = block_sums::<M, K, T>(block, given);
    for t in 0..T {
        for q in 0..QUADS {
            let scaled = f32x4_mul(f32x4_convert_i32x4(sums[t][q]), load(&block.scale[q], 0));
            let mut next = f32x4_add(total[t][q], f32x4_mul(scaled, f32x4_splat(given.scales[t])));
            if K::MINIMA != Minima::None {
                next = f32x4_sub(next, f32x4_mul(load(&block.minima[0][q], 0), f32x4_splat(given.sums[0][t])));
            }
            if K::MINIMA == Minima::Halves {
                next = f32x4_sub(next, f32x4_mul(load(&block.minima[1][q], 0), f32x4_splat(given.sums[1][t])));
            }
            total[t][q] = next;
        }
    }
}

/// Exact sums of a block, its factors applied.
#[inline(always)]
fn block_sums<M: Multiply, K: Kind, const T: usize>(block: &Block, given: &Given) -> Tile<T> {
    let [first, second] =
        given.starts.map(|starts| -> Tile<T> { std::array::from_fn(|t| [i32x4_splat(starts[t]); QUADS]) });
    let first = add_half::<M, K, T>(first, &block.quants[0], given, 0);
    if !K::FACTORS {
        return add_half::<M, K, T>(first, &block.quants[1], given, 4);
    }
    let second = add_half::<M, K, T>(second, &block.quants[1], given, 4);
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

/// Columns, in fours, whose products are added before the sum gains them. With a factor for each half, weights are at most 63,
/// otherwise at most 31.
pub const fn together<K: Kind>() -> usize {
    if K::FACTORS { 2 } else { 4 }
}

/// 16 columns of all rows times those of every input, from this four on.
#[inline(always)]
fn add_half<M: Multiply, K: Kind, const T: usize>(sums: Tile<T>, w: &Half, x: &Given, four: usize) -> Tile<T> {
    let begin = |sums: Tile<T>| sums.map(|sums| sums.map(|sums| M::begin(sums)));
    let end = |sums: Tile<T>, parts: Tile<T>| -> Tile<T> {
        std::array::from_fn(|t| std::array::from_fn(|q| M::end(sums[t][q], parts[t][q])))
    };
    let step = |parts: Tile<T>, k: usize| step::<M, T>(parts, w, k, x, four + k);
    let parts = step(step(begin(sums), 0), 1);
    if together::<K>() == 4 {
        return end(sums, step(step(parts, 2), 3));
    }
    let sums = end(sums, parts);
    end(sums, step(step(begin(sums), 2), 3))
}

/// Four columns of all rows times those of every input.
#[inline(always)]
fn step<M: Multiply, const T: usize>(mut parts: Tile<T>, w: &Half, k: usize, x: &Given, four: usize) -> Tile<T> {
    let w: [M::Weights; QUADS] = std::array::from_fn(|q| M::weights(load(&w[q][k], 0)));
    for t in 0..T {
        let x = M::four(&x.fours[t], four);
        for q in 0..QUADS {
            parts[t][q] = M::add(parts[t][q], w[q], x);
        }
    }
    parts
}
