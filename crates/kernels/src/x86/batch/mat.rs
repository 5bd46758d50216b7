//! Products of packed inputs with weights of any format that can be unpacked.
//!
//! For each panel of columns, 32 weight rows are unpacked into the first-level cache and meet all inputs, 32 at a time;
//! sums wait in scratch memory, weight row by weight row, and are turned around at the end. While a block is worked on,
//! the raw weights of the next are brought into the second-level cache, and its own next sums into the first.

use std::arch::x86_64::*;
use std::ops::Range;

use super::lines::{load, store};
use super::pack;
use super::unpack::{BLOCK_ROWS, PANEL_LINES, Panel, Unpack};
use super::{Begin, Engine, Operands, SUMS, TILE};
use crate::x86::avx512::transpose::transpose;
use crate::{BatchKernels, BatchTask, Emit, Line};

/// The kernels of a format by an engine.
pub fn kernels<W: Unpack, E: Engine>() -> BatchKernels {
    let (packing, sums) = (pack::packing(W::FORM), Some(sums::<W, E> as _));
    BatchKernels { least: E::LEAST, packing, scratch, mat: mat::<W, E>, sums }
}

/// Sums, and one row of outputs for each input of a tile.
fn scratch(rows: usize, inputs: usize) -> usize {
    rows.div_ceil(BLOCK_ROWS) * inputs.div_ceil(BLOCK_ROWS) * SUMS + TILE * row_lines(rows)
}

/// Lines of a row of outputs: one more than it needs, lest rows of a power of two fall into one set of the cache.
fn row_lines(rows: usize) -> usize {
    rows.div_ceil(BLOCK_ROWS) * BLOCK_ROWS / 16 + 1
}

fn mat<W: Unpack, E: Engine>(task: BatchTask<'_>, emit: &mut Emit<'_>) {
    let BatchTask { rows, cols, inputs, .. } = task;
    let (shape, scratch) = Shape::of::<W>(task);
    if rows == 0 || inputs == 0 {
        return (0..inputs).for_each(|t| emit(t, &[]));
    }
    let (sums, outputs) = scratch.split_at_mut(rows.div_ceil(BLOCK_ROWS) * inputs.div_ceil(BLOCK_ROWS) * SUMS);
    let sums = sums.as_chunks_mut().0;
    // SAFETY: only a table leads here, whose token says that the processor has what its engine and unpackers need.
    unsafe {
        multiply::<W, E>(sums, shape, 0..cols.div_ceil(W::FORM.panel_cols()));
        turn(sums, outputs, (rows, inputs), emit);
    }
}

fn sums<W: Unpack, E: Engine>(task: BatchTask<'_>, piece: usize) {
    let BatchTask { rows, cols, inputs, .. } = task;
    let (shape, scratch) = Shape::of::<W>(task);
    assert!(rows > 0 && inputs > 0 && piece * W::FORM.panel_cols() < cols, "piece {piece} of {cols} columns");
    let sums = &mut scratch.as_chunks_mut().0[..rows.div_ceil(BLOCK_ROWS) * inputs.div_ceil(BLOCK_ROWS)];
    // SAFETY: as above.
    unsafe { multiply::<W, E>(sums, shape, piece..piece + 1) };
}

#[derive(Clone, Copy)]
struct Shape<'a> {
    w: &'a [u8],
    row_bytes: usize,
    rows: usize,
    cols: usize,
    inputs: usize,
    x: &'a [Line],
}

impl<'a> Shape<'a> {
    /// Of a task, checked, and its scratch memory.
    fn of<W: Unpack>(task: BatchTask<'a>) -> (Shape<'a>, &'a mut [Line]) {
        let BatchTask { w, rows, cols, inputs, x, scratch } = task;
        let format = W::FORMAT;
        let row_bytes = format.row_bytes(cols).expect("columns are whole blocks: checked when the tensor was loaded");
        assert_eq!(w.len(), rows * row_bytes, "{format} batch: weight bytes for {rows} rows of {cols}");
        assert!(cols > 0, "{format} batch: no columns");
        (Shape { w, row_bytes, rows, cols, inputs, x }, scratch)
    }
}

/// Fills the sums, `[weight rows / 32][inputs / 32]`, or goes on with those of the panels before.
///
/// # Safety
/// The processor has these features and those that `W` and `E` ask for.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
unsafe fn multiply<W: Unpack, E: Engine>(sums: &mut [[Line; SUMS]], shape: Shape<'_>, panels: Range<usize>) {
    let Shape { w, row_bytes, rows, cols, inputs, x } = shape;
    let halves = W::FORM.halves();
    let panel_cols = W::FORM.panel_cols();
    let panel_bytes = panel_cols / W::FORMAT.block_len() * W::FORMAT.block_bytes();
    let blocks = inputs.div_ceil(BLOCK_ROWS);
    let mut panel: Panel = [[Line::ZERO; BLOCK_ROWS]; PANEL_LINES / BLOCK_ROWS];
    // SAFETY: as this function's.
    let engine = unsafe { E::ready() };
    for p in panels {
        let start = p * panel_cols;
        let steps = (cols - start).min(panel_cols).div_ceil(W::FORM.step_cols());
        let panel = &mut panel[..steps * halves];
        let bytes = |row: usize, p: usize| {
            let row = &w[row * row_bytes..][..row_bytes];
            &row[p * panel_bytes..row_bytes.min((p + 1) * panel_bytes)]
        };
        for (n, sums) in sums.chunks_exact_mut(blocks).enumerate() {
            let first = n * BLOCK_ROWS;
            for r in 0..BLOCK_ROWS.min(rows - first) {
                // SAFETY: as this function's.
                unsafe { W::unpack(bytes(first + r, p), panel, r) };
            }
            let next = match first + BLOCK_ROWS < rows {
                true => (first + BLOCK_ROWS, p),
                false if start + panel_cols < cols => (0, p + 1),
                false => (rows, p),
            };
            let begin = if p == 0 { Begin::Anew } else { Begin::Sums };
            for b in 0..blocks {
                for row in b * BLOCK_ROWS / blocks..(b + 1) * BLOCK_ROWS / blocks {
                    if next.0 + row < rows {
                        prefetch(bytes(next.0 + row, next.1));
                    }
                }
                let lines = steps * halves * pack::tiles(inputs - b * BLOCK_ROWS) * TILE;
                let x = &x[(p * blocks + b) * PANEL_LINES..][..lines];
                // The first panel stores its sums without having loaded them.
                let ahead = sums.as_ptr().wrapping_add(if p == 0 { b } else { b + 1 }).cast();
                let operands = Operands { w: panel.as_flattened(), x, steps, ahead };
                // SAFETY: as this function's.
                unsafe { E::multiply(&engine, &mut sums[b], operands, W::FORM, begin) };
            }
        }
    }
}

/// Asks for bytes to be brought into the second-level cache.
#[inline]
#[target_feature(enable = "avx512f")]
fn prefetch(bytes: &[u8]) {
    // The last one need not begin where a line does.
    for line in (0..bytes.len() + 63).step_by(64) {
        _mm_prefetch::<_MM_HINT_T1>(bytes.as_ptr().wrapping_add(line).cast());
    }
}

/// Hands out sums as rows of outputs, 16 inputs at a time.
#[target_feature(enable = "avx512f")]
fn turn(sums: &[[Line; SUMS]], outputs: &mut [Line], (rows, inputs): (usize, usize), emit: &mut Emit<'_>) {
    let (blocks, stride) = (inputs.div_ceil(BLOCK_ROWS), row_lines(rows));
    for first in (0..inputs).step_by(TILE) {
        let (block, side) = (first / BLOCK_ROWS, first / TILE % 2);
        for (n, sums) in sums.chunks_exact(blocks).enumerate() {
            for upper in 0..2 {
                let tile = &sums[block].as_chunks::<TILE>().0[2 * upper + side];
                let mut registers = [_mm512_setzero_si512(); TILE];
                for i in 0..TILE {
                    registers[i] = load(&tile[i]);
                }
                for (t, outs) in transpose(registers).into_iter().enumerate() {
                    store(&mut outputs[t * stride + 2 * n + upper], outs);
                }
            }
        }
        for t in 0..TILE.min(inputs - first) {
            emit(first + t, &Line::floats(&outputs[t * stride..][..stride])[..rows]);
        }
    }
}
