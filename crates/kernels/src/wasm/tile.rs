//! Tiles: a panel of eight rows times a few inputs over a segment. Lane = row.

use std::arch::wasm32::*;
use std::hint::black_box;
use std::ops::Range;

use super::multiply::{Columns, INPUTS, Multiply, STEPS};
use super::panel::{Block, QUADS, Step};
use super::registers::load;
use crate::array::{self, Each};
use crate::kind::Kind;
use crate::order::LANES;
use crate::weights::Minima;

/// Four numbers for each input of a tile and each four rows.
pub type Tile<const T: usize> = [[v128; QUADS]; T];

/// A block of each input of a tile. With eight rows it has 8 sums, which leaves half of 16 registers for what is multiplied.
#[derive(Clone, Copy)]
pub struct Given {
    pub columns: [Columns; STEPS],
    pub scales: [f32; INPUTS],
    /// Scales times sums of quants: of the whole block, or of its first and of its second half.
    pub sums: [[f32; INPUTS]; 2],
    /// What sums of products begin with, so that they are those of weights less their offset: of both halves.
    pub starts: [[i32; INPUTS]; 2],
}

impl Given {
    pub const NONE: Given = Given {
        columns: [[0; INPUTS]; STEPS],
        scales: [0.0; INPUTS],
        sums: [[0.0; INPUTS]; 2],
        starts: [[0; INPUTS]; 2],
    };
}

/// The products over the segment; place = input, lane = row.
///
/// The blocks of one of the order's lanes after the other. Knows the kind of a format and not the format, and how many products
/// are added `TOGETHER`.
pub fn tile<M: Multiply, K: Kind, const TOGETHER: usize, const T: usize>(panel: &[Block], x: &[Given]) -> Tile<T> {
    // Unrolled, one sum of a block after the other would be formed, with what they share in memory.
    let (x, turns) = (&x[..panel.len()], black_box(together::<M, K>(TOGETHER)));
    let mut lanes = [[[f32x4_splat(0.0); QUADS]; T]; LANES];
    for (j, lane) in lanes.iter_mut().enumerate() {
        let mut total = [[f32x4_splat(0.0); QUADS]; T];
        for b in (j..panel.len()).step_by(LANES) {
            add_block::<M, K, TOGETHER, T>(&mut total, &panel[b], &x[b], turns);
        }
        *lane = total;
    }
    let mut sum = [[f32x4_splat(0.0); QUADS]; T];
    for t in 0..T {
        for q in 0..QUADS {
            let [a, b, c, d, e, f, g, h] = lanes.each_ref().each(|lane| lane[t][q]);
            let even = f32x4_add(f32x4_add(a, e), f32x4_add(c, g));
            let odd = f32x4_add(f32x4_add(b, f), f32x4_add(d, h));
            sum[t][q] = f32x4_add(even, odd);
        }
    }
    sum
}

#[inline(always)]
fn add_block<M: Multiply, K: Kind, const TOGETHER: usize, const T: usize>(
    total: &mut Tile<T>,
    block: &Block,
    given: &Given,
    turns: usize,
) {
    // Pointers that the compiler knows from the last turn have their offsets added by instructions.
    let (block, given) = (black_box(block), black_box(given));
    let sums = block_sums::<M, K, TOGETHER, T>(block, given, turns);
    for t in 0..T {
        let of_input = |values: &[f32; INPUTS]| all_lanes(load(values, 0), t);
        for q in 0..QUADS {
            let scaled = f32x4_mul(f32x4_convert_i32x4(sums[t][q]), load(&block.scale[q], 0));
            let mut next = f32x4_add(total[t][q], f32x4_mul(scaled, of_input(&given.scales)));
            if K::MINIMA != Minima::None {
                next = f32x4_sub(next, f32x4_mul(load(&block.minima[0][q], 0), of_input(&given.sums[0])));
            }
            if K::MINIMA == Minima::Halves {
                next = f32x4_sub(next, f32x4_mul(load(&block.minima[1][q], 0), of_input(&given.sums[1])));
            }
            total[t][q] = next;
        }
    }
}

/// Steps whose products are added before sums gain them: all of a block's, or of its half's, if they may be.
const fn together<M: Multiply, K: Kind>(most: usize) -> usize {
    let all = if K::FACTORS { 4 * M::PARTS } else { 8 * M::PARTS };
    if most < all { most } else { all }
}

/// Exact sums of a block, its factors applied.
#[inline(always)]
fn block_sums<M: Multiply, K: Kind, const TOGETHER: usize, const T: usize>(
    block: &Block,
    given: &Given,
    turns: usize,
) -> Tile<T> {
    let [first, second] = if M::OFFSETS {
        given.starts.each(|starts| -> Tile<T> { array::of(|t| [all_lanes(load(&starts, 0), t); QUADS]) })
    } else {
        [[[i32x4_splat(0); QUADS]; T]; 2]
    };
    let together = const { together::<M, K>(TOGETHER) };
    let add = |sums, steps: Range<usize>| {
        let parts = block.quants[steps.clone()].chunks_exact(together).zip(given.columns[steps].chunks_exact(together));
        parts.fold(sums, |sums, (w, x)| add::<M, T>(sums, w, x, turns))
    };
    let half = 4 * M::PARTS;
    if !K::FACTORS {
        return add(first, 0..2 * half);
    }
    let (mut sums, second) = (add(first, 0..half), add(second, half..2 * half));
    for t in 0..T {
        for q in 0..QUADS {
            let [a, b] =
                [(sums, 0), (second, 1)].each(|(sums, half)| i32x4_mul(sums[t][q], load(&block.factors[half][q], 0)));
            sums[t][q] = i32x4_add(a, b);
        }
    }
    sums
}

/// As many steps as there are, `turns`, of all rows and of every input.
#[inline(always)]
fn add<M: Multiply, const T: usize>(sums: Tile<T>, w: &[Step], x: &[Columns], turns: usize) -> Tile<T> {
    let mut parts = sums.each(|sums| sums.each(|sums| M::begin(sums)));
    for (w, x) in w[..turns].iter().zip(&x[..turns]) {
        let (w, x) = (w.each(|w| load(&w, 0)), load(x, 0));
        for t in 0..T {
            // A load that does this takes an instruction more in V8, for its address.
            let x = all_lanes(x, t);
            for q in 0..QUADS {
                parts[t][q] = M::add(parts[t][q], w[q], x);
            }
        }
    }
    array::of(|t| array::of(|q| M::end(sums[t][q], parts[t][q])))
}

/// Lane `t` in all lanes.
#[inline(always)]
fn all_lanes(x: v128, t: usize) -> v128 {
    match t {
        0 => i32x4_shuffle::<0, 0, 0, 0>(x, x),
        1 => i32x4_shuffle::<1, 1, 1, 1>(x, x),
        2 => i32x4_shuffle::<2, 2, 2, 2>(x, x),
        _ => i32x4_shuffle::<3, 3, 3, 3>(x, x),
    }
}
