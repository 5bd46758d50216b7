//! Products of packed inputs with K-quants: weight rows are unpacked strip by strip, superblock by superblock, and meet all
//! inputs; sums wait in scratch memory.

use std::arch::x86_64::*;

use super::COLS;
use super::input::{Input, LINES};
use super::pack::PACKING;
use super::panel::{Panel, ROWS, Superblock};
use super::tile::{INPUTS, tile};
use crate::{BatchKernels, BatchTask, Emit, Line};

/// Panels that are unpacked together: 20 KiB, which the first-level cache holds beside the inputs of a tile.
const PANELS: usize = 4;
/// Weight rows of as many panels.
const STRIP_ROWS: usize = PANELS * ROWS;
/// Weight rows that all superblocks are worked through for, before the next: their sums and a superblock of all inputs
/// fit into the second-level cache.
const BLOCK_ROWS: usize = 2 * STRIP_ROWS;
/// Inputs whose outputs are gathered together: sums of one input are far apart.
const GATHERED: usize = 8;

/// The kernels of a format.
pub fn kernels<S: Superblock>() -> BatchKernels {
    BatchKernels { least: 8, packing: &PACKING, scratch, mat: mat::<S> }
}

/// Sums, and the outputs of some inputs.
fn scratch(rows: usize, inputs: usize) -> usize {
    rows.div_ceil(ROWS) * (inputs + GATHERED)
}

fn mat<S: Superblock>(task: BatchTask<'_>, emit: &mut Emit<'_>) {
    let BatchTask { w, rows, cols, inputs, x, scratch } = task;
    let format = S::FORMAT;
    let row_bytes = format.row_bytes(cols).expect("columns are whole superblocks: checked when the tensor was loaded");
    assert_eq!(w.len(), rows * row_bytes, "{format} batch: weight bytes for {rows} rows of {cols}");
    assert!(cols > 0, "{format} batch: no columns");
    if rows == 0 || inputs == 0 {
        return (0..inputs).for_each(|t| emit(t, &[]));
    }
    let panels = rows.div_ceil(ROWS);
    let (sums, outputs) = scratch.split_at_mut(panels * inputs);
    sums.fill(Line::ZERO);
    let matrix = Matrix { w, row_bytes, rows };
    let padded = inputs.next_multiple_of(PACKING.inputs);
    let mut unpacked = [Panel::ZERO; PANELS];
    let mut strips = strips(rows, cols).peekable();
    while let Some(strip) = strips.next() {
        let x = &Input::all(&x[strip.p * padded * LINES..])[..inputs];
        let last = panels.min((strip.first + STRIP_ROWS) / ROWS);
        let sums = &mut sums[strip.first / ROWS * inputs..last * inputs];
        // SAFETY: only a table leads here, whose token says that the processor has what this asks for.
        unsafe { matrix.multiply::<S>(strip, strips.peek(), &mut unpacked, x, sums) };
    }
    for first in (0..inputs).step_by(GATHERED) {
        let count = GATHERED.min(inputs - first);
        for (n, sums) in sums.chunks_exact(inputs).enumerate() {
            for t in 0..count {
                outputs[t * panels + n] = sums[first + t];
            }
        }
        for (t, outputs) in outputs.chunks_exact(panels).take(count).enumerate() {
            emit(first + t, &floats(outputs)[..rows]);
        }
    }
}

/// A superblock of up to [`STRIP_ROWS`] weight rows.
#[derive(Clone, Copy)]
struct Strip {
    first: usize,
    p: usize,
}

/// All of a matrix, in the order in which they are multiplied.
fn strips(rows: usize, cols: usize) -> impl Iterator<Item = Strip> {
    (0..rows).step_by(BLOCK_ROWS).flat_map(move |block| {
        let rows = block..rows.min(block + BLOCK_ROWS);
        (0..cols / COLS).flat_map(move |p| rows.clone().step_by(STRIP_ROWS).map(move |first| Strip { first, p }))
    })
}

/// Weight rows.
struct Matrix<'a> {
    w: &'a [u8],
    row_bytes: usize,
    rows: usize,
}

impl Matrix<'_> {
    fn row(&self, row: usize) -> &[u8] {
        &self.w[row * self.row_bytes..][..self.row_bytes]
    }

    /// Adds the products of a strip with all inputs to their sums, `[panel][input]`.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
    fn multiply<S: Superblock>(
        &self,
        strip: Strip,
        next: Option<&Strip>,
        panels: &mut [Panel; PANELS],
        x: &[Input],
        sums: &mut [Line],
    ) {
        let panels = &mut panels[..sums.len() / x.len()];
        for (n, panel) in panels.iter_mut().enumerate() {
            // The last row stands in for rows that are not there.
            let row = |r: usize| self.row((strip.first + n * ROWS + r).min(self.rows - 1));
            // SAFETY: this function has the features that `unpack` asks for.
            unsafe { S::unpack(panel, std::array::from_fn(|r| &S::split(row(r))[strip.p])) };
        }
        let mut t = 0;
        while t < x.len() {
            // As even as can be: a tile of few inputs waits for its sums.
            let count = (x.len() - t).div_ceil((x.len() - t).div_ceil(INPUTS));
            if let Some(next) = next {
                for r in t * STRIP_ROWS / x.len()..(t + count) * STRIP_ROWS / x.len() {
                    prefetch(&S::split(self.row((next.first + r).min(self.rows - 1)))[next.p]);
                }
            }
            for (panel, sums) in panels.iter().zip(sums.chunks_exact_mut(x.len())) {
                let (x, sums) = (&x[t..], &mut sums[t..]);
                match count {
                    1 => tile_at::<S, 1>(panel, x, sums),
                    2 => tile_at::<S, 2>(panel, x, sums),
                    3 => tile_at::<S, 3>(panel, x, sums),
                    4 => tile_at::<S, 4>(panel, x, sums),
                    5 => tile_at::<S, 5>(panel, x, sums),
                    _ => tile_at::<S, INPUTS>(panel, x, sums),
                }
            }
            t += count;
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
fn tile_at<S: Superblock, const T: usize>(panel: &Panel, x: &[Input], sums: &mut [Line]) {
    let x = x.first_chunk().expect("a tile has no more inputs than are left");
    tile::<S, T>(panel, x, sums.first_chunk_mut().expect("each input has its sums"));
}

/// Asks for what is unpacked next.
#[inline]
fn prefetch<T>(bytes: &T) {
    let start = std::ptr::from_ref(bytes).cast::<i8>();
    // The last one need not begin where a line does.
    for line in (0..size_of::<T>() + 63).step_by(64) {
        // SAFETY: every x86-64 processor has the instruction; an address that is not there does nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(line)) };
    }
}

/// The floats that lines consist of.
fn floats(lines: &[Line]) -> &[f32] {
    // SAFETY: a `Line` is 16 dwords without padding, aligned more strictly than a float, and any dword is a float.
    unsafe { std::slice::from_raw_parts(lines.as_ptr().cast(), lines.len() * 16) }
}
