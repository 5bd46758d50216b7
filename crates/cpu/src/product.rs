//! Matrix products: inputs rounded once where the weights want it, weight rows dealt out in chunks.

use std::cell::RefCell;
use std::ops::Range;

use candor_kernels::{Activations, BatchKernels, BatchTask, F32Kernels, Line, OutTile, Q8_BLOCK, Q8RowMut, Q8Rows};

use crate::buffer::{Buf, room};
use crate::inputs::Inputs;
use crate::packed::{Packed, TOGETHER};
use crate::pool::Pool;
use crate::split::Split;
use crate::weight::{Kind, Tier, Weight};

pub(crate) mod gated;

/// Weight rows per chunk are a multiple of this: kernels take several at once, and it fills a cache line of outputs.
pub(crate) const ROWS_MULTIPLE: usize = 32;
/// Weight bytes times input rows per chunk that are worth handing to another thread.
pub(crate) const CHUNK_BYTES: usize = 16 << 10;
/// Outputs per chunk, so that they stay in the second-level cache.
pub(crate) const CHUNK_OUTPUTS: usize = 64 << 10;
/// The same of batch kernels, which read all inputs again for each chunk.
const BATCH_OUTPUTS: usize = 512 << 10;
/// Weight rows of a batch chunk are a multiple of this.
const BATCH_ROWS_MULTIPLE: usize = 32;
/// Weight rows that are worth a chunk of their own to batch kernels: each chunk reads all inputs again.
const BATCH_ROWS: usize = 512;
/// Bytes of inputs worked through per chunk at a time, for the same reason.
const INPUT_BYTES: usize = 1 << 20;
/// Rows decoded at a time where there is no kernel.
const DECODED_ROWS: usize = 8;

/// Inputs rounded to 8 bits.
#[derive(Default)]
pub(crate) struct Rounded {
    quants: Vec<i8>,
    scales: Vec<f32>,
    sums: Vec<i16>,
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
}

/// Some weight rows of one product: what a thread does at a time.
#[derive(Clone, Debug, PartialEq)]
struct Chunk {
    part: usize,
    rows: Range<usize>,
}

/// What products keep from one to the next: their inputs rounded to 8 bits and packed, and their chunks.
#[derive(Default)]
pub(crate) struct Workspace {
    pub(crate) rounded: Rounded,
    pub(crate) packed: Packed,
    /// Inputs of a product that were made from the sums of others.
    middle: Packed,
    chunks: Vec<Chunk>,
}

/// What all parts share.
pub(crate) struct Work<'a> {
    pub(crate) x: &'a Inputs<'a>,
    pub(crate) rounded: &'a Rounded,
    pub(crate) packed: &'a Packed,
    pub(crate) f32: &'a F32Kernels,
}

#[derive(Default)]
struct Scratch {
    tile: Vec<f32>,
    decoded: Vec<f32>,
    lines: Vec<Line>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Rounded {
    pub(crate) fn fill(&mut self, x: &Inputs<'_>, pool: &Pool, f32: &F32Kernels) {
        let (rows, cols) = (x.rows, x.cols);
        let quants = Split::new(room(&mut self.quants, rows * cols), cols);
        let scales = Split::new(room(&mut self.scales, rows * cols / Q8_BLOCK), cols / Q8_BLOCK);
        let sums = Split::new(room(&mut self.sums, rows * cols / 16), cols / 16);
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

    /// Puts `count` rows of another next to each other: `row` says which.
    pub(crate) fn gather(
        &mut self,
        from: &Rounded,
        cols: usize,
        count: usize,
        row: &(dyn Fn(usize) -> usize + Sync),
        pool: &Pool,
    ) {
        let quants = Split::new(room(&mut self.quants, count * cols), cols);
        let scales = Split::new(room(&mut self.scales, count * cols / Q8_BLOCK), cols / Q8_BLOCK);
        let sums = Split::new(room(&mut self.sums, count * cols / 16), cols / 16);
        pool.run(count, &|place| {
            let from = from.some(row(place), 1, cols);
            // SAFETY: each row is filled once, and no two rows overlap.
            unsafe {
                quants.cell(place, 0..cols).copy_from_slice(from.quants);
                scales.cell(place, 0..cols / Q8_BLOCK).copy_from_slice(from.scales);
                sums.cell(place, 0..cols / 16).copy_from_slice(from.sums);
            }
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
        if q8 {
            return Activations::Q8(self.rounded.some(first, rows, cols));
        }
        Activations::F32 { cols, values: &values[first * cols..(first + rows) * cols] }
    }

    /// Computes one chunk for every input row.
    fn chunk(&self, part: &Part<'_>, columns: Range<usize>) {
        let (inputs, first, outputs) = (self.x.rows, columns.start, columns.len());
        SCRATCH.with_borrow_mut(|Scratch { tile, decoded, lines }| {
            if let Some(batch) = part.w.batch(self.x.tier, inputs) {
                return self.batch(batch, part, columns, lines);
            }
            if inputs == 1 && part.then == Then::Store {
                // SAFETY: each chunk is run once, and no two chunks have columns in common.
                let out = unsafe { part.out.cell(0, columns) };
                return self.tile(out, part.w, (first, outputs), 0..1, decoded);
            }
            let tile = room(tile, inputs * outputs);
            self.tile(tile, part.w, (first, outputs), 0..inputs, decoded);
            for (t, values) in tile.chunks_exact(outputs).enumerate() {
                self.finish(part, t, columns.clone(), values);
            }
        });
    }

    /// Puts a chunk's outputs of one input where they belong.
    fn finish(&self, part: &Part<'_>, t: usize, columns: Range<usize>, values: &[f32]) {
        // SAFETY: each chunk is run once and finishes each input once, and no two chunks have columns in common.
        let out = unsafe { part.out.cell(t, columns) };
        match part.then {
            Then::Store => out.copy_from_slice(values),
            Then::Add => (self.f32.add)(out, values),
        }
    }

    /// Computes one chunk with packed inputs.
    fn batch(&self, batch: &BatchKernels, part: &Part<'_>, columns: Range<usize>, lines: &mut Vec<Line>) {
        let (cols, rows) = (self.x.cols, columns.len());
        let w = part.w.bytes(columns.clone());
        for first in (0..self.x.rows).step_by(TOGETHER) {
            let inputs = TOGETHER.min(self.x.rows - first);
            let scratch = room(lines, (batch.scratch)(rows, inputs));
            let x = self.packed.some(batch.packing, first, inputs, cols);
            let task = BatchTask { w, rows, cols, inputs, x, scratch };
            (batch.mat)(task, &mut |t, values| self.finish(part, first + t, columns.clone(), values));
        }
    }

    /// `out[i][o] = w[first + o] . x[inputs[i]]` for `outputs` weight rows and some of the input rows.
    pub(crate) fn tile(
        &self,
        out: &mut [f32],
        w: &Weight,
        (first, outputs): (usize, usize),
        inputs: Range<usize>,
        decoded: &mut Vec<f32>,
    ) {
        let Inputs { cols, values, .. } = *self.x;
        let Kind::Matrix { kernels: Some(kernels), .. } = &w.0 else {
            let values = &values[inputs.start * cols..inputs.end * cols];
            let decoded = room(decoded, DECODED_ROWS * cols);
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
        let bytes = w.bytes(first..first + outputs);
        let block = (INPUT_BYTES / cols.max(1)).max(1);
        for t in (0..inputs.len()).step_by(block) {
            let rows = block.min(inputs.len() - t);
            let out = OutTile { values: &mut out[t * outputs..(t + rows) * outputs], stride: outputs };
            (kernels.mat)(out, bytes, outputs, self.some(inputs.start + t, rows, kernels.q8));
        }
    }
}

/// Cuts the weights of products into chunks of whole rows, large ones first: long runs of memory are read fastest, and
/// small chunks at the end let the threads finish together.
fn deal(chunks: &mut Vec<Chunk>, weights: &[&Weight], (tier, inputs): (Tier, usize), threads: usize) {
    chunks.clear();
    let shares = if threads == 1 { 1 } else { 2 * threads };
    let mut left: usize = weights.iter().map(|w| w.rows() * w.row_bytes()).sum();
    for (part, w) in weights.iter().enumerate() {
        let bytes = w.row_bytes().max(1);
        let (least, most, multiple) = match w.batch(tier, inputs) {
            None => (CHUNK_BYTES / (bytes * inputs), CHUNK_OUTPUTS / inputs, ROWS_MULTIPLE),
            Some(_) => {
                let share = w.rows() / threads;
                (share.min(BATCH_ROWS), BATCH_OUTPUTS / inputs.min(TOGETHER), BATCH_ROWS_MULTIPLE)
            }
        };
        let mut first = 0;
        while first < w.rows() {
            let rows = (left / shares / bytes).min(most).max(least).max(1).next_multiple_of(multiple);
            let rows = rows.min(w.rows() - first);
            chunks.push(Chunk { part, rows: first..first + rows });
            first += rows;
            left -= rows * w.row_bytes();
        }
    }
}

/// Computes products of the same inputs: those of a prompt in one parallel section, those that decode in another, or all in one
/// where the weights have the same kernels for both. The outputs have as many rows as there are inputs.
pub(crate) fn multiply<const N: usize>(
    mut products: [Product<'_>; N],
    x: &Inputs<'_>,
    decoding: usize,
    work: &mut Workspace,
    (pool, f32): (&Pool, &F32Kernels),
) {
    for product in &mut products {
        (product.out.rows, product.out.decoding) = (x.rows, decoding);
    }
    let apart = x.tier == Tier::Prefill && products.iter().any(|product| product.w.batch(x.tier, x.rows).is_some());
    let prefill = if apart { x.rows - decoding } else { x.rows };
    for (rows, tier) in [(0..prefill, x.tier), (prefill..x.rows, Tier::Decode)] {
        if rows.is_empty() && x.rows > 0 {
            continue;
        }
        let values = &x.values[rows.start * x.cols..rows.end * x.cols];
        let some = Inputs { rows: rows.len(), tier, cols: x.cols, values };
        section(products.each_mut(), &some, rows.start, work, (pool, f32));
    }
}

/// Computes the products of some of the inputs, whose outputs begin at row `first`, in one parallel section.
fn section<const N: usize>(
    products: [&mut Product<'_>; N],
    x: &Inputs<'_>,
    first: usize,
    Workspace { rounded, packed, chunks, .. }: &mut Workspace,
    (pool, f32): (&Pool, &F32Kernels),
) {
    let weights = products.each_ref().map(|product| product.w);
    if weights.iter().any(|w| w.q8() && w.batch(x.tier, x.rows).is_none()) {
        rounded.fill(x, pool, f32);
    }
    packed.fill(weights.iter().filter_map(|w| w.batch(x.tier, x.rows)).map(|batch| batch.packing), x, pool);
    run(products, &Work { x, rounded, packed, f32 }, first, chunks, pool);
}

/// Computes the products of inputs that are ready.
fn run<const N: usize>(
    products: [&mut Product<'_>; N],
    work: &Work<'_>,
    first: usize,
    chunks: &mut Vec<Chunk>,
    pool: &Pool,
) {
    let (x, weights) = (work.x, products.each_ref().map(|product| product.w));
    let parts = products.map(|Product { out, w, then }| {
        let width = out.width;
        let rows = &mut out.live_mut()[first * width..][..x.rows * width];
        Part { out: Split::new(rows, width), w, then: *then }
    });
    deal(chunks, &weights, (x.tier, x.rows.max(1)), pool.threads());
    pool.run(chunks.len(), &|index| {
        let Chunk { part, rows } = &chunks[index];
        work.chunk(&parts[*part], rows.clone());
    });
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use candor_kernels::{Form, Kernels, Packing};
    use candor_ops::Tensor;
    use candor_quant::Format;

    use super::*;
    use crate::Batching;

    fn weight(rows: usize, cols: usize) -> Weight {
        let tensor = Tensor { name: "w".into(), format: Format::I8, rows, cols, bytes: vec![0; rows * cols].into() };
        Weight::new(tensor, Kernels::scalar(), Batching::Fastest).expect("the right number of bytes")
    }

    #[test]
    fn chunks_shrink_towards_the_end() {
        let mut chunks = Vec::new();
        deal(&mut chunks, &[&weight(2048, 2048)], (Tier::Decode, 1), 2);
        let rows: Vec<usize> = chunks.iter().map(|chunk| chunk.rows.len()).collect();
        assert_eq!((rows[0], rows.last()), (512, Some(&ROWS_MULTIPLE)), "{rows:?}");
        assert!(rows.is_sorted_by(|a, b| a >= b), "{rows:?}");
        deal(&mut chunks, &[&weight(2048, 2048)], (Tier::Decode, 1), 1);
        assert_eq!(chunks, [Chunk { part: 0, rows: 0..2048 }], "one thread reads in one go");
    }

    #[test]
    fn chunks_cover_every_row_once() {
        for (inputs, threads) in [(1, 1), (1, 2), (1, 7), (2, 2), (33, 1), (512, 2), (512, 64)] {
            let shapes = [(2048, 2048), (5, 256), (32_000, 32), (17, 16_384)];
            let weights = shapes.map(|(rows, cols)| weight(rows, cols));
            let mut chunks = vec![Chunk { part: 9, rows: 0..9 }];
            deal(&mut chunks, &weights.each_ref(), (Tier::Decode, inputs), threads);
            let case = format!("{inputs} inputs, {threads} threads: {chunks:?}");
            let mut next = (0, 0);
            for Chunk { part, rows } in &chunks {
                if next.1 == shapes[next.0].0 {
                    next = (next.0 + 1, 0);
                }
                assert_eq!((*part, rows.start), next, "{case}");
                assert!(!rows.is_empty() && rows.len() * inputs <= CHUNK_OUTPUTS + ROWS_MULTIPLE * inputs, "{case}");
                next.1 = rows.end;
            }
            assert_eq!(next, (3, 17), "{case}");
            assert!(chunks.len() >= threads, "{case}");
        }
    }

    #[test]
    fn chunks_of_batch_kernels_are_large() {
        static TABLE: LazyLock<Kernels> = LazyLock::new(|| {
            static PACKING: Packing =
                Packing { form: Form::Bf16, inputs: 1, cols: 1, lines: 1, pack: |_, _, _, _| (), gate: None };
            let batch =
                |_| Some(BatchKernels { least: 2, packing: &PACKING, scratch: |_, _| 0, mat: |_, _| (), sums: None });
            let Kernels { f32, mat, attention, probe, exact, .. } = *Kernels::scalar();
            Kernels { name: "made up", f32, mat, attention, batch, probe, exact }
        });
        let weight = |rows, cols| {
            let bytes = vec![0; rows * cols].into();
            let tensor = Tensor { name: "w".into(), format: Format::I8, rows, cols, bytes };
            Weight::new(tensor, &TABLE, Batching::Fastest).expect("the right number of bytes")
        };
        let mut chunks = Vec::new();
        let mut rows = |weight: &Weight, inputs, threads| -> Vec<usize> {
            deal(&mut chunks, &[weight], (Tier::Fastest, inputs), threads);
            chunks.iter().map(|chunk| chunk.rows.len()).collect()
        };
        assert_eq!(rows(&weight(2048, 512), 512, 2), [512, 512, 512, 512], "each reads all inputs again");
        assert_eq!(rows(&weight(2048, 512), 512, 1), [1024, 1024], "no more sums than the cache holds");
        assert_eq!(rows(&weight(2048, 512), 2000, 1), [1024, 1024], "inputs come in groups");
        assert_eq!(rows(&weight(100, 512), 512, 4), [32, 32, 32, 4], "every thread gets some");
        assert_eq!(rows(&weight(2048, 512), 1, 1), [2048], "one input takes the row kernels");
    }
}
