//! Products of packed inputs with K-quants: weight rows are unpacked strip by strip, superblock by superblock, and meet all
//! inputs; sums wait in scratch memory.

use std::arch::x86_64::*;

use candor_quant::Format;

use super::COLS;
use crate::array;
use crate::{BatchKernels, BatchTask, Emit, Line, Packing};

/// Weight rows of a panel, and floats of a line of sums.
pub const ROWS: usize = 16;

/// Panels that are unpacked together: 20 KiB, which the first-level cache holds beside the inputs of a tile.
const PANELS: usize = 4;
/// Weight rows of as many panels.
const STRIP_ROWS: usize = PANELS * ROWS;
/// Weight rows that all superblocks are worked through for, before the next: their sums and a superblock of all inputs
/// fit into the second-level cache.
const BLOCK_ROWS: usize = 2 * STRIP_ROWS;
/// Inputs from which on it is worth it. On Zen 5 AVX-512 VNNI's are quicker than the row kernels from here on, AVX2's from 8 on;
/// but up to 17 tokens are guesses that are checked, and keep the bits of decoding.
const LEAST: usize = 20;
/// Inputs whose outputs are gathered together: sums of one input are far apart.
const GATHERED: usize = 8;

/// How the superblocks of a format are multiplied.
///
/// Stable Rust has no safe trait methods with target features, hence the `unsafe`.
pub trait Kind {
    const FORMAT: Format;
    /// Superblock by superblock, inputs lie one after the other.
    const PACKING: &'static Packing;
    /// The most inputs that are multiplied side by side.
    const TILE: usize;
    /// Bytes of a superblock.
    type Bytes;
    /// Sixteen rows of a superblock, unpacked so that lanes are rows.
    type Panel: Copy;
    const ZERO: Self::Panel;

    /// A row's superblocks.
    fn split(row: &[u8]) -> &[Self::Bytes];

    /// Unpacks one superblock of sixteen rows.
    ///
    /// # Safety
    /// The processor has what the kind is named after.
    unsafe fn unpack(panel: &mut Self::Panel, rows: [&Self::Bytes; ROWS]);

    /// Adds the products with the first inputs of `x` to their `sums`, of which there are up to `TILE`.
    ///
    /// # Safety
    /// As above.
    unsafe fn tile(panel: &Self::Panel, x: &[Line], sums: &mut [Line]);
}

/// The kernels of a format.
pub fn kernels<K: Kind>() -> BatchKernels {
    BatchKernels { least: LEAST, packing: K::PACKING, scratch, mat: mat::<K>, sums: None }
}

/// Sums, and the outputs of some inputs.
fn scratch(rows: usize, inputs: usize) -> usize {
    rows.div_ceil(ROWS) * (inputs + GATHERED)
}

fn mat<K: Kind>(task: BatchTask<'_>, emit: &mut Emit<'_>) {
    let BatchTask { w, rows, cols, inputs, x, scratch } = task;
    let format = K::FORMAT;
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
    let superblock = inputs.div_ceil(K::PACKING.inputs) * K::PACKING.lines;
    let mut unpacked = [K::ZERO; PANELS];
    let mut strips = strips(rows, cols).peekable();
    while let Some(strip) = strips.next() {
        let x = &x[strip.p * superblock..][..superblock];
        let last = panels.min((strip.first + STRIP_ROWS) / ROWS);
        let sums = &mut sums[strip.first / ROWS * inputs..last * inputs];
        // SAFETY: only a table leads here, whose token says that the processor has what its kinds ask for.
        unsafe { matrix.multiply::<K>(strip, strips.peek(), &mut unpacked, (x, inputs), sums) };
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
    ///
    /// # Safety
    /// The processor has what the kind is named after.
    unsafe fn multiply<K: Kind>(
        &self,
        strip: Strip,
        next: Option<&Strip>,
        panels: &mut [K::Panel; PANELS],
        (x, inputs): (&[Line], usize),
        sums: &mut [Line],
    ) {
        let panels = &mut panels[..sums.len() / inputs];
        for (n, panel) in panels.iter_mut().enumerate() {
            // The last row stands in for rows that are not there.
            let row = |r: usize| self.row((strip.first + n * ROWS + r).min(self.rows - 1));
            // SAFETY: as this function's.
            unsafe { K::unpack(panel, array::of(|r| &K::split(row(r))[strip.p])) };
        }
        let mut t = 0;
        while t < inputs {
            // As even as can be: a tile of few inputs waits for its sums.
            let count = (inputs - t).div_ceil((inputs - t).div_ceil(K::TILE));
            if let Some(next) = next {
                for r in t * STRIP_ROWS / inputs..(t + count) * STRIP_ROWS / inputs {
                    prefetch(&K::split(self.row((next.first + r).min(self.rows - 1)))[next.p]);
                }
            }
            let x = &x[t * (K::PACKING.lines / K::PACKING.inputs)..];
            for (panel, sums) in panels.iter().zip(sums.chunks_exact_mut(inputs)) {
                // SAFETY: as this function's.
                unsafe { K::tile(panel, x, &mut sums[t..t + count]) };
            }
            t += count;
        }
    }
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
