//! Attention of a few rows over the cached positions of one key and value head.
//!
//! The scores are a matrix product whose weights are the cached keys, by the kernels of any other product. A row's
//! result depends on its query and on the cache alone: sums over positions go from the first to the last.

use std::cell::RefCell;
use std::ops::Range;

use candor_kernels::{Activations, Kernels, OutTile};
use candor_ops::{Heads, Step};
use candor_quant::Format;

use crate::buffer::room;
use crate::kv::{Head, Run};

/// Query heads of one task, over all its rows.
pub(crate) const QUERIES: usize = 32;
/// Positions whose values stay in the first-level cache while all queries take them.
const POSITIONS: usize = 64;

/// Some heads of some rows that share a key and value head.
pub(crate) struct Task<'a> {
    pub(crate) kv: Head<'a>,
    pub(crate) heads: Heads,
    /// Query heads per row.
    pub(crate) group: usize,
    /// Positions that each row sees; `kv` holds the most that any does.
    pub(crate) seen: &'a [usize],
}

/// Runs of a step's rows that belong to one sequence.
#[derive(Default)]
pub(crate) struct Spans {
    spans: Vec<Range<usize>>,
    /// Positions that each row sees.
    seen: Vec<usize>,
}

impl Spans {
    /// Cuts a step's rows into runs of at most `rows`.
    pub(crate) fn cut(&mut self, step: &Step, rows: usize) {
        self.seen.clear();
        self.seen.extend(step.positions.iter().map(|&position| position as usize + 1));
        self.spans.clear();
        for (t, sequence) in step.sequences.iter().enumerate() {
            match self.spans.last_mut() {
                Some(span) if span.len() < rows && step.sequences[span.start] == *sequence => span.end = t + 1,
                _ => self.spans.push(t..t + 1),
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.spans.len()
    }

    /// The rows of a run, and the positions they see.
    pub(crate) fn get(&self, span: usize) -> (Range<usize>, &[usize]) {
        let rows = self.spans[span].clone();
        (rows.clone(), &self.seen[rows])
    }
}

#[derive(Default)]
struct Scratch {
    /// `[rows * group, key_dim]`
    queries: Vec<f32>,
    /// `[rows * group, positions]`
    scores: Vec<f32>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Task<'_> {
    /// Attends: `query(row)` gives the row's `group` query heads, `out(row)` the place of its `group` results.
    pub(crate) fn run<'q, 'o>(
        &self,
        kernels: &Kernels,
        query: impl Fn(usize) -> &'q [f32],
        mut out: impl FnMut(usize) -> &'o mut [f32],
    ) {
        let f32 = &kernels.f32;
        SCRATCH.with_borrow_mut(|Scratch { queries, scores }| {
            queries.clear();
            (0..self.seen.len()).for_each(|row| queries.extend_from_slice(query(row)));
            let positions = self.seen.iter().copied().max().unwrap_or(0);
            let count = self.seen.len() * self.group;
            let scores = room(scores, count * positions);
            self.score(scores, queries, positions, kernels);
            for (row, scores) in scores.chunks_exact_mut(self.group * positions).enumerate() {
                let (out, seen) = (out(row), self.seen[row]);
                out.fill(0.0);
                let mut sums = [0.0; QUERIES];
                for (scores, sum) in scores.chunks_exact_mut(positions).zip(&mut sums) {
                    let scores = &mut scores[..seen];
                    (f32.scale)(scores, self.heads.scale);
                    *sum = (f32.exp_sum)(scores, (f32.max)(scores));
                }
                let mix = Mix { scores, positions, seen, dim: self.heads.value_dim };
                match self.kv.values {
                    Run::F32(values) => mix.run(out, values, f32.axpy),
                    Run::F16(values) => mix.run(out, values, f32.axpy_f16),
                }
                for (out, sum) in out.chunks_exact_mut(self.heads.value_dim).zip(sums) {
                    (f32.scale)(out, 1.0 / sum);
                }
            }
        });
    }

    /// `scores[i][p] = queries[i] . keys[p]`
    fn score(&self, scores: &mut [f32], queries: &[f32], positions: usize, kernels: &Kernels) {
        let (format, bytes) = match self.kv.keys {
            Run::F32(keys) => (Format::F32, little_endian(&keys[..positions * self.heads.key_dim])),
            Run::F16(keys) => (Format::F16, little_endian(&keys[..positions * self.heads.key_dim])),
        };
        let product = (kernels.mat)(format).expect("every table multiplies plain floats");
        let x = Activations::F32 { cols: self.heads.key_dim, values: queries };
        (product.mat)(OutTile { values: scores, stride: positions }, bytes, positions, x);
    }
}

/// `out[h] += scores[h] @ values`
struct Mix<'a> {
    scores: &'a [f32],
    /// Elements from one head's scores to the next's.
    positions: usize,
    seen: usize,
    dim: usize,
}

impl Mix<'_> {
    fn run<T>(&self, out: &mut [f32], values: &[T], axpy: fn(&mut [f32], f32, &[T])) {
        for first in (0..self.seen).step_by(POSITIONS) {
            let range = first..self.seen.min(first + POSITIONS);
            for (scores, out) in self.scores.chunks_exact(self.positions).zip(out.chunks_exact_mut(self.dim)) {
                let values = values[first * self.dim..].chunks_exact(self.dim);
                for (&score, value) in scores[range.clone()].iter().zip(values) {
                    axpy(out, score, value);
                }
            }
        }
    }
}

/// What a kernel can read as a file's bytes.
trait Number: Copy {}
impl Number for f32 {}
impl Number for u16 {}

fn little_endian<T: Number>(values: &[T]) -> &[u8] {
    const { assert!(cfg!(target_endian = "little"), "kernels read numbers as files hold them") };
    // SAFETY: floats and integers have no padding, any byte is valid as u8, and the length is theirs in bytes.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}
