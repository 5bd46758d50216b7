//! Products of quantized rows with 8-bit activations, for any format that can unpack a block of 32.

use candor_quant::Format;

use crate::order::{LANES, SEGMENT, SEGMENT_BLOCKS, plus_product, tree};
use crate::shape::q8_rows;
use crate::weights::Minima;
use crate::{Activations, OutTile, Q8Row};

/// 32 weights: `w[i] = scale * factors[i / 16] * quants[i] - minima[i / 16]`.
#[derive(Clone, Copy)]
pub struct Block {
    pub quants: [i8; 32],
    pub factors: [i32; 2],
    pub scale: f32,
    /// Of both halves; a minimum of the whole block is in both.
    pub minima: [f32; 2],
}

impl Block {
    const ZERO: Block = Block { quants: [0; 32], factors: [1; 2], scale: 0.0, minima: [0.0; 2] };
}

/// A format whose rows are sequences of blocks of 32.
pub trait Blocks {
    const FORMAT: Format;
    const MINIMA: Minima;

    /// Unpacks block `index` of `row`.
    fn block(row: &[u8], index: usize) -> Block;

    /// Unpacks the blocks from `first`, a multiple of 32.
    fn fill(blocks: &mut [Block], row: &[u8], first: usize) {
        for (b, block) in blocks.iter_mut().enumerate() {
            *block = Self::block(row, first + b);
        }
    }
}

/// `out[t][o] = w[o] . x[t]`: the blocks of a segment are unpacked once and serve every input row.
pub fn mat<B: Blocks>(out: OutTile<'_>, w: &[u8], rows: usize, x: Activations<'_>) {
    let (x, inputs, row_bytes) = q8_rows(&out, B::FORMAT, w, rows, x);
    let mut blocks = [Block::ZERO; SEGMENT_BLOCKS];
    for o in 0..rows {
        let row = &w[o * row_bytes..][..row_bytes];
        for start in (0..x.cols).step_by(SEGMENT) {
            let count = (x.cols - start).min(SEGMENT) / 32;
            B::fill(&mut blocks[..count], row, start / 32);
            for t in 0..inputs {
                let sum = segment::<B>(&blocks[..count], x.row(t), start);
                let value = &mut out.values[t * out.stride + o];
                *value = if start == 0 { sum } else { *value + sum };
            }
        }
    }
}

fn segment<B: Blocks>(blocks: &[Block], x: Q8Row<'_>, start: usize) -> f32 {
    let mut lanes = [0.0; LANES];
    for (b, block) in blocks.iter().enumerate() {
        let at = start / 32 + b;
        let quants = &x.quants[at * 32..][..32];
        let half = |h: usize| -> i32 {
            let products = block.quants[h * 16..][..16].iter().zip(&quants[h * 16..][..16]);
            products.map(|(&w, &x)| i32::from(w) * i32::from(x)).sum()
        };
        // NVFP4's sums take more than 32 bits. They are rounded once.
        let isum: i64 = (0..2).map(|h| i64::from(block.factors[h]) * i64::from(half(h))).sum();
        let scale = x.scales[at];
        let sums = [i32::from(x.sums[at * 2]), i32::from(x.sums[at * 2 + 1])];
        let lane = &mut lanes[b % LANES];
        *lane = plus_product(*lane, isum as f32 * block.scale, scale);
        match B::MINIMA {
            Minima::None => {}
            Minima::Whole => *lane = plus_product(*lane, -block.minima[0], scale * (sums[0] + sums[1]) as f32),
            Minima::Halves => {
                *lane = plus_product(*lane, -block.minima[0], scale * sums[0] as f32);
                *lane = plus_product(*lane, -block.minima[1], scale * sums[1] as f32);
            }
        }
    }
    tree(lanes)
}

/// The half-precision number at a byte offset.
#[inline]
pub fn f16_at(bytes: &[u8], at: usize) -> f32 {
    candor_quant::half::f16_to_f32(u16::from_le_bytes([bytes[at], bytes[at + 1]]))
}
