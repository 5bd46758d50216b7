//! Matrix products: inputs rounded once where the weights want it, weight rows dealt out in chunks.

use std::cell::RefCell;

use candor_kernels::{Activations, F32Kernels, OutTile, Q8_BLOCK, Q8RowMut, Q8Rows};

use crate::buffer::Buf;
use crate::pool::Pool;
use crate::split::Split;
use crate::weight::{Kind, Weight};

/// Weight rows per chunk are a multiple of this: kernels take several at once, and it fills a cache line of outputs.
const ROWS_MULTIPLE: usize = 16;
/// Weight bytes per chunk that keep the cost of claiming chunks invisible.
const CHUNK_BYTES: usize = 64 << 10;
/// Weight rows per chunk when there are many input rows.
const CHUNK_ROWS: usize = 64;
/// Chunks per thread that let threads finish together.
const CHUNKS_PER_THREAD: usize = 4;
/// Bytes of inputs worked through per chunk at a time, so that they stay in the second-level cache.
const INPUT_BYTES: usize = 512 << 10;
/// Rows decoded at a time where there is no kernel.
const DECODED_ROWS: usize = 8;

/// Room for inputs rounded to 8 bits, kept from one product to the next.
#[derive(Default)]
pub(crate) struct Rounded {
    quants: Vec<i8>,
    scales: Vec<f32>,
    sums: Vec<i16>,
}

/// The inputs of a product.
pub(crate) struct Inputs<'a> {
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) values: &'a [f32],
}

/// What becomes of a product.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Then {
    Store,
    Add,
}

/// One product of shared inputs.
pub(crate) struct Product<'a> {
    pub(crate) out: &'a mut Buf,
    pub(crate) w: &'a Weight,
    pub(crate) then: Then,
}

/// A product made ready for several threads.
struct Part<'a> {
    out: Split<'a, f32>, // [T, out]
    w: &'a Weight,
    then: Then,
    chunk_rows: usize,
}

/// What all parts share.
struct Work<'a> {
    x: &'a Inputs<'a>,
    rounded: &'a Rounded,
    f32: &'a F32Kernels,
}

#[derive(Default)]
struct Scratch {
    tile: Vec<f32>,
    decoded: Vec<f32>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Rounded {
    fn fill(&mut self, x: &Inputs<'_>, pool: &Pool, f32: &F32Kernels) {
        let (rows, cols) = (x.rows, x.cols);
        self.quants.resize(rows * cols, 0);
        self.scales.resize(rows * cols / Q8_BLOCK, 0.0);
        self.sums.resize(rows * cols / 16, 0);
        let quants = Split::new(&mut self.quants, cols);
        let scales = Split::new(&mut self.scales, cols / Q8_BLOCK);
        let sums = Split::new(&mut self.sums, cols / 16);
        pool.run(rows, &|row| {
            // SAFETY: each row is rounded once, and no two rows overlap.
            let out = unsafe {
                Q8RowMut {
                    quants: quants.cell(row, 0..cols),
                    scales: scales.cell(row, 0..cols / Q8_BLOCK),
                    sums: sums.cell(row, 0..cols / 16),
                }
            };
            (f32.quantize_q8)(out, &x.values[row * cols..][..cols]);
        });
    }

    fn some(&self, first: usize, rows: usize, cols: usize) -> Q8Rows<'_> {
        let part = |per_row: usize| first * per_row..(first + rows) * per_row;
        Q8Rows {
            cols,
            quants: &self.quants[part(cols)],
            scales: &self.scales[part(cols / Q8_BLOCK)],
            sums: &self.sums[part(cols / 16)],
        }
    }
}

impl Work<'_> {
    /// Some of the input rows, in the form that the weights want.
    fn some(&self, first: usize, rows: usize, q8: bool) -> Activations<'_> {
        let Inputs { cols, values, .. } = *self.x;
        match q8 {
            true => Activations::Q8(self.rounded.some(first, rows, cols)),
            false => Activations::F32 { cols, values: &values[first * cols..(first + rows) * cols] },
        }
    }

    /// Computes one chunk of a part's weight rows for every input row.
    fn chunk(&self, part: &Part<'_>, index: usize) {
        let first = index * part.chunk_rows;
        let columns = first..part.w.rows().min(first + part.chunk_rows);
        let (inputs, outputs) = (self.x.rows, columns.len());
        SCRATCH.with_borrow_mut(|Scratch { tile, decoded }| {
            if inputs == 1 && part.then == Then::Store {
                // SAFETY: each chunk is run once, and no two chunks have columns in common.
                let out = unsafe { part.out.cell(0, columns) };
                return self.tile(out, part.w, first, outputs, decoded);
            }
            tile.resize(tile.len().max(inputs * outputs), 0.0);
            let tile = &mut tile[..inputs * outputs];
            self.tile(tile, part.w, first, outputs, decoded);
            for (t, values) in tile.chunks_exact(outputs).enumerate() {
                // SAFETY: as above.
                let out = unsafe { part.out.cell(t, columns.clone()) };
                match part.then {
                    Then::Store => out.copy_from_slice(values),
                    Then::Add => (self.f32.add)(out, values),
                }
            }
        });
    }

    /// `out[t][o] = w[first + o] . x[t]` for `outputs` weight rows and every input row.
    fn tile(&self, out: &mut [f32], w: &Weight, first: usize, outputs: usize, decoded: &mut Vec<f32>) {
        let Inputs { rows: inputs, cols, values } = *self.x;
        let Kind::Matrix { tensor, kernels: Some(kernels) } = &w.0 else {
            decoded.resize(decoded.len().max(DECODED_ROWS * cols), 0.0);
            for start in (0..outputs).step_by(DECODED_ROWS) {
                let decoded = &mut decoded[..DECODED_ROWS.min(outputs - start) * cols];
                for (i, row) in decoded.chunks_exact_mut(cols).enumerate() {
                    w.decode(first + start + i, row);
                }
                for (x, out) in values.chunks_exact(cols).zip(out.chunks_exact_mut(outputs)) {
                    for (row, out) in decoded.chunks_exact(cols).zip(&mut out[start..]) {
                        *out = (self.f32.dot)(row, x);
                    }
                }
            }
            return;
        };
        let bytes = &tensor.bytes[first * w.row_bytes()..(first + outputs) * w.row_bytes()];
        let block = (INPUT_BYTES / cols.max(1)).max(1);
        for t in (0..inputs).step_by(block) {
            let rows = block.min(inputs - t);
            let out = OutTile { values: &mut out[t * outputs..(t + rows) * outputs], stride: outputs };
            (kernels.mat)(out, bytes, outputs, self.some(t, rows, kernels.q8));
        }
    }
}

/// Weight rows per chunk: enough to make claiming cheap, few enough to go round.
fn chunk_rows(w: &Weight, inputs: usize, threads: usize) -> usize {
    let wanted = if inputs == 1 { CHUNK_BYTES / w.row_bytes().max(1) } else { CHUNK_ROWS };
    let fair = w.rows().div_ceil(threads * CHUNKS_PER_THREAD);
    let rows = if threads == 1 { wanted } else { wanted.min(fair) };
    rows.max(1).next_multiple_of(ROWS_MULTIPLE)
}

/// Computes products of the same inputs in one parallel section.
pub(crate) fn multiply<const N: usize>(
    products: [Product<'_>; N],
    x: &Inputs<'_>,
    rounded: &mut Rounded,
    pool: &Pool,
    f32: &F32Kernels,
) {
    if products.iter().any(|product| product.w.q8()) {
        rounded.fill(x, pool, f32);
    }
    let parts = products.map(|Product { out, w, then }| {
        out.rows = x.rows;
        let width = out.width;
        Part { out: Split::new(out.live_mut(), width), w, then, chunk_rows: chunk_rows(w, x.rows, pool.threads()) }
    });
    let chunks = parts.each_ref().map(|part| part.w.rows().div_ceil(part.chunk_rows));
    let work = Work { x, rounded, f32 };
    pool.run(chunks.iter().sum(), &|mut index| {
        for (part, &chunks) in parts.iter().zip(&chunks) {
            if index < chunks {
                return work.chunk(part, index);
            }
            index -= chunks;
        }
    });
}
