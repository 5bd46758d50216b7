//! Panels: eight rows of a segment, unpacked once for all inputs.

use std::arch::wasm32::*;

use super::fold::transpose;
use super::format::{Eight, Quant, Range, Scales};
use super::half_table::HalfTable;
use super::multiply::{Multiply, STEPS};
use super::registers::store;
use crate::array::{self, Each};
use crate::kind::{Kind, padded};
use crate::order::SEGMENT_BLOCKS;
use crate::unroll::unroll;
use crate::weights::Minima;

/// Rows of a panel.
pub const ROWS: usize = QUADS * 4;
/// Registers that hold a number for each row.
pub const QUADS: usize = 2;

/// The columns of a step: a register for each four rows, lane = row.
pub type Step = [[i8; 16]; QUADS];

/// 32 columns of eight rows; what a format doesn't have is never read.
#[derive(Clone, Copy)]
#[repr(align(32))]
pub struct Block {
    pub quants: [Step; STEPS],
    pub scale: [[f32; 4]; QUADS],
    /// Of both halves.
    pub minima: [[[f32; 4]; QUADS]; 2],
    /// Of both halves.
    pub factors: [[[i32; 4]; QUADS]; 2],
}

impl Block {
    pub const EMPTY: Self = Self {
        quants: [[[0; 16]; QUADS]; STEPS],
        scale: [[0.0; 4]; QUADS],
        minima: [[[0.0; 4]; QUADS]; 2],
        factors: [[[0; 4]; QUADS]; 2],
    };
}

/// A segment of eight rows.
pub type Panel = [Block; SEGMENT_BLOCKS];

/// Unpacks the groups of a segment, of each of the eight rows; they may end within a group.
pub fn unpack<M: Multiply, Q: Quant<N>, const N: usize>(panel: &mut Panel, rows: [&[u8]; ROWS], halves: HalfTable) {
    let rows = rows.each(<[u8]>::as_chunks::<N>);
    let (whole, rest) = rows[0];
    let (groups, _) = panel.as_chunks_mut::<8>();
    for (g, blocks) in groups.iter_mut().enumerate().take(whole.len()) {
        unpack_group::<M, Q, N>(blocks, rows.each(|(whole, _)| &whole[g]), halves);
    }
    if !rest.is_empty() {
        let ends = rows.each(|(_, rest)| padded(rest));
        unpack_group::<M, Q, N>(&mut groups[whole.len()], ends.each_ref(), halves);
    }
}

fn unpack_group<M: Multiply, Q: Quant<N>, const N: usize>(
    blocks: &mut [Block; 8],
    rows: [&[u8; N]; ROWS],
    halves: HalfTable,
) {
    for q in 0..QUADS {
        let rows: [&[u8; N]; 4] = array::of(|r| rows[q * 4 + r]);
        set_scales::<Q::Kind>(blocks, q, rows.each(|row| Q::scales(row, halves)));
        unroll!(J, {
            let quants = rows.each(|row| Q::quants(row, J));
            for half in 0..2 {
                let columns = transpose(quants.each(|quants| quants[half]));
                let steps = blocks[J].quants[half * 4 * M::PARTS..].chunks_exact_mut(M::PARTS);
                for (steps, register) in steps.zip(columns) {
                    let signed = Q::RANGE == Range::Signed || !M::OFFSETS && Q::OFFSET != 0;
                    let reduced = if M::OFFSETS || Q::OFFSET == 0 {
                        register
                    } else {
                        i8x16_sub(register, i8x16_splat(Q::OFFSET))
                    };
                    let parts = M::split(reduced, signed);
                    for (step, part) in steps.iter_mut().zip(parts) {
                        store(&mut step[q], 0, part);
                    }
                }
            }
        });
    }
}

/// Sets what belongs to four rows besides their quants: from lane = block to lane = row.
#[inline(always)]
fn set_scales<K: Kind>(blocks: &mut [Block; 8], q: usize, rows: [Scales; 4]) {
    let [a, b, c, d] = rows;
    let columns = |rows: [Eight; 4]| -> [v128; 8] {
        let [low, high] = [0, 1].each(|half| transpose(rows.each(|row| row[half])));
        array::of(|block| if block < 4 { low[block] } else { high[block - 4] })
    };
    for (block, scale) in blocks.iter_mut().zip(columns([a.scale, b.scale, c.scale, d.scale])) {
        store(&mut block.scale[q], 0, scale);
    }
    let halves = match K::MINIMA {
        Minima::None => 0,
        Minima::Whole => 1,
        Minima::Halves => 2,
    };
    for half in 0..halves {
        let minima = columns([a.minima[half], b.minima[half], c.minima[half], d.minima[half]]);
        for (block, minimum) in blocks.iter_mut().zip(minima) {
            store(&mut block.minima[half][q], 0, minimum);
        }
    }
    if K::FACTORS {
        let wide = [a, b, c, d].each(|row| widen(row.factors));
        for (pair, blocks) in blocks.as_chunks_mut::<2>().0.iter_mut().enumerate() {
            let columns = transpose(wide.each(|row| row[pair]));
            for (i, column) in columns.into_iter().enumerate() {
                store(&mut blocks[i / 2].factors[i % 2][q], 0, column);
            }
        }
    }
}

/// 16 signed bytes as integers.
#[inline(always)]
pub fn widen(bytes: v128) -> [v128; 4] {
    let (low, high) = (i16x8_extend_low_i8x16(bytes), i16x8_extend_high_i8x16(bytes));
    [
        i32x4_extend_low_i16x8(low),
        i32x4_extend_high_i16x8(low),
        i32x4_extend_low_i16x8(high),
        i32x4_extend_high_i16x8(high),
    ]
}
