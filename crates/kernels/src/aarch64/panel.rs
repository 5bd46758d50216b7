//! Panels: eight rows of a segment, unpacked once for all inputs. Offsets of quants are subtracted here.

use std::arch::aarch64::*;

use super::fold::transpose;
use super::format::{Eight, Quant, Scales};
use super::integer::Integer;
use super::registers::{store_f32, store_i8, store_i32};
use crate::array::{self, Each};
use crate::kind::Kind;
use crate::order::SEGMENT_BLOCKS;
use crate::unroll::unroll;
use crate::weights::Minima;

/// Rows of a panel.
pub const ROWS: usize = QUADS * 4;
/// Registers that hold a number for each row.
pub const QUADS: usize = 2;

/// 16 columns: for each four rows the four registers that `Integer::pack` makes.
pub type Half = [[[i8; 16]; 4]; QUADS];

/// 32 columns of eight rows; what a format doesn't have is never read.
#[derive(Clone, Copy)]
#[repr(align(32))]
pub struct Block {
    pub quants: [Half; 2],
    pub scale: [[f32; 4]; QUADS],
    /// Of both halves.
    pub minima: [[[f32; 4]; QUADS]; 2],
    /// Of both halves.
    pub factors: [[[i32; 4]; QUADS]; 2],
}

/// A segment of eight rows.
pub type Panel = [Block; SEGMENT_BLOCKS];

pub const EMPTY: Panel = [Block {
    quants: [[[[0; 16]; 4]; QUADS]; 2],
    scale: [[0.0; 4]; QUADS],
    minima: [[[0.0; 4]; QUADS]; 2],
    factors: [[[0; 4]; QUADS]; 2],
}; SEGMENT_BLOCKS];

/// Unpacks the groups of a segment; `row` gives the segment of each of the eight rows, which may end within a group.
///
/// # Safety
/// The processor has `I`.
#[target_feature(enable = "neon")]
pub unsafe fn unpack<'a, I: Integer, Q: Quant<N>, const N: usize>(panel: &mut Panel, rows: [&'a [u8]; ROWS]) {
    let rows: [(&'a [[u8; N]], &[u8]); ROWS] = rows.each(<[u8]>::as_chunks);
    let (whole, rest) = rows[0];
    let (groups, _) = panel.as_chunks_mut::<8>();
    for (g, blocks) in groups.iter_mut().enumerate().take(whole.len()) {
        // SAFETY: as this function's.
        unsafe { unpack_group::<I, Q, N>(blocks, rows.each(|(whole, _)| &whole[g])) };
    }
    if !rest.is_empty() {
        let mut ends = [[0; N]; ROWS];
        for (end, (_, rest)) in ends.iter_mut().zip(rows) {
            end[..rest.len()].copy_from_slice(rest);
        }
        // SAFETY: as this function's.
        unsafe { unpack_group::<I, Q, N>(&mut groups[whole.len()], ends.each_ref()) };
    }
}

#[target_feature(enable = "neon")]
unsafe fn unpack_group<I: Integer, Q: Quant<N>, const N: usize>(blocks: &mut [Block; 8], rows: [&[u8; N]; ROWS]) {
    for q in 0..QUADS {
        let rows: [&[u8; N]; 4] = array::of(|r| rows[q * 4 + r]);
        // SAFETY: every processor with `I` has NEON.
        set_scales::<Q::Kind>(blocks, q, rows.each(|row| unsafe { Q::scales(row) }));
        unroll!(J, {
            // SAFETY: as above.
            let quants = rows.each(|row| unsafe { Q::quants(row, J) });
            for half in 0..2 {
                let reduced = quants.each(|quants| vsubq_s8(quants[half], vdupq_n_s8(Q::OFFSET)));
                // SAFETY: as this function's.
                let packed = unsafe { I::pack(reduced) };
                for (target, register) in blocks[J].quants[half][q].iter_mut().zip(packed) {
                    store_i8(target, register);
                }
            }
        });
    }
}

/// Sets what belongs to four rows besides their quants: from lane = block to lane = row.
#[inline]
#[target_feature(enable = "neon")]
fn set_scales<K: Kind>(blocks: &mut [Block; 8], q: usize, rows: [Scales; 4]) {
    let [a, b, c, d] = rows;
    let columns = |rows: [Eight; 4]| -> [float32x4_t; 8] {
        let [low, high] = [0, 1].each(|half| transpose(rows.each(|row| row[half])));
        array::of(|block| if block < 4 { low[block] } else { high[block - 4] })
    };
    for (block, scale) in blocks.iter_mut().zip(columns([a.scale, b.scale, c.scale, d.scale])) {
        store_f32(&mut block.scale[q], 0, scale);
    }
    let halves = match K::MINIMA {
        Minima::None => 0,
        Minima::Whole => 1,
        Minima::Halves => 2,
    };
    for half in 0..halves {
        let minima = columns([a.minima[half], b.minima[half], c.minima[half], d.minima[half]]);
        for (block, minimum) in blocks.iter_mut().zip(minima) {
            store_f32(&mut block.minima[half][q], 0, minimum);
        }
    }
    if K::FACTORS {
        let wide = [a, b, c, d].each(|row| widen(row.factors));
        for (pair, blocks) in blocks.as_chunks_mut::<2>().0.iter_mut().enumerate() {
            let columns = transpose(wide.each(|row| vreinterpretq_f32_s32(row[pair])));
            for (i, column) in columns.into_iter().enumerate() {
                store_i32(&mut blocks[i / 2].factors[i % 2][q], vreinterpretq_s32_f32(column));
            }
        }
    }
}

/// 16 signed bytes as integers.
#[inline]
#[target_feature(enable = "neon")]
pub fn widen(bytes: int8x16_t) -> [int32x4_t; 4] {
    let (low, high) = (vmovl_s8(vget_low_s8(bytes)), vmovl_high_s8(bytes));
    [vmovl_s16(vget_low_s16(low)), vmovl_high_s16(low), vmovl_s16(vget_low_s16(high)), vmovl_high_s16(high)]
}
