//! Attention of a few rows over the cached positions of one key and value head, block by block.
//!
//! Positions are cut into blocks of [`BLOCK`]. Each block has a softmax of its own: the largest score, the sum of the
//! exponentials and their mix of the values (Milakov and Gimelshein 2018; Dao et al. 2022). Blocks are merged from the
//! first to the last, one by one, whichever thread computed them; so a row's result depends on its query and on the
//! cache alone. A position that a row does not see takes no part in any sum.
//!
//! Where the instruction set has kernels for many queries at once, rows of prompts take those (`tiled`): other sums, whose bits,
//! too, depend neither on the other queries of a task nor on the threads.

mod task;
mod tiled;

use std::cell::RefCell;
use std::ops::Range;

use candor_kernels::{F32Kernels, GROUP, OutTile, PANEL, Queries, Weights, padded};
use candor_ops::{Mask, Step, sequence_len};

use crate::buffer::room;

pub(crate) use task::{BLOCK, Task};
use task::{Part, base};
use tiled::Packed;

/// Query heads of one task, over all its rows.
pub(crate) const QUERIES: usize = 64;
/// The same where keys and values are packed for them first.
pub(crate) const TILED_QUERIES: usize = 256;
/// Queries whose scores stay in the first-level cache while they are turned into weights and used.
const TILE: usize = 8;

/// Which rows take kernels for many queries, and how long runs of rows are.
#[derive(Clone, Copy)]
pub(crate) struct Cut {
    /// Most rows of a run.
    pub(crate) rows: usize,
    /// The same of rows that take kernels for many queries.
    pub(crate) tiled_rows: usize,
    pub(crate) tiled: Takes,
}

/// Which rows take kernels for many queries.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Takes {
    Nothing,
    /// Rows of prompts, of which there are as many.
    Prompts(usize),
    /// Runs of as many rows or more.
    Many(usize),
}

/// Runs of a step's rows that belong to one sequence, and whether they take kernels for many queries.
#[derive(Default)]
pub(crate) struct Spans {
    spans: Vec<(Range<usize>, bool)>,
    /// Positions that each row sees.
    seen: Vec<Range<usize>>,
}

impl Spans {
    /// Cuts a step's rows into runs.
    pub(crate) fn cut(&mut self, step: &Step, mask: Mask, cut: Cut) {
        self.seen.clear();
        // Only a mask that looks ahead has to know where its sequence ends.
        let mut last = None;
        for (&position, &sequence) in step.positions.iter().zip(step.sequences) {
            let len = match last {
                _ if !mask.is_both() => 0,
                Some((of, len)) if of == sequence => len,
                _ => sequence_len(step, sequence),
            };
            last = Some((sequence, len));
            self.seen.push(mask.seen(position as usize, len));
        }
        self.spans.clear();
        for (t, sequence) in step.sequences.iter().enumerate() {
            let tiled = match cut.tiled {
                Takes::Nothing => false,
                Takes::Prompts(rows) => t < rows,
                Takes::Many(_) => true,
            };
            let most = if tiled { cut.tiled_rows } else { cut.rows };
            match self.spans.last_mut() {
                Some((span, like))
                    if span.len() < most && *like == tiled && step.sequences[span.start] == *sequence =>
                {
                    span.end = t + 1;
                }
                _ => self.spans.push((t..t + 1, tiled)),
            }
        }
        if let Takes::Many(least) = cut.tiled {
            self.spans.iter_mut().for_each(|(span, tiled)| *tiled = span.len() >= least);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.spans.len()
    }

    /// The rows of a run, the positions they see, and whether they take kernels for many queries.
    pub(crate) fn get(&self, span: usize) -> (Range<usize>, &[Range<usize>], bool) {
        let (rows, tiled) = self.spans[span].clone();
        (rows.clone(), &self.seen[rows], tiled)
    }

    /// Rows of the longest run.
    pub(crate) fn longest(&self) -> usize {
        self.spans.iter().map(|(span, _)| span.len()).max().unwrap_or(0)
    }

    /// Blocks of which any row sees something, and those between them.
    pub(crate) fn blocks(&self) -> Range<usize> {
        blocks(&self.seen)
    }
}

/// Blocks of which any row sees something, and those between them.
fn blocks(seen: &[Range<usize>]) -> Range<usize> {
    let first = seen.iter().map(|seen| seen.start).min().unwrap_or(0);
    let end = seen.iter().map(|seen| seen.end).max().unwrap_or(0);
    first / BLOCK..end.div_ceil(BLOCK)
}

/// Floats of what is known of a query after some positions: the largest score, the sum of exponentials of scores less
/// it, and their mix of the values, padded.
pub(crate) fn partial_size(value_dim: usize) -> usize {
    2 + padded(value_dim)
}

#[derive(Default)]
struct Scratch {
    /// `[rows * group, key_dim]`, scaled
    queries: Vec<f32>,
    /// `[TILE, BLOCK]`
    scores: Vec<f32>,
    /// `[TILE, padded value_dim]`
    mixes: Vec<f32>,
    packed: Packed,
    /// `[rows * group, partial_size]`
    totals: Vec<f32>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Task<'_> {
    /// Attends: `query(row)` gives the row's `group` query heads, `out(row)` the place of its `group` results.
    pub(crate) fn run<'q, 'o>(&self, query: impl Fn(usize) -> &'q [f32], mut out: impl FnMut(usize) -> &'o mut [f32]) {
        SCRATCH.with_borrow_mut(|Scratch { queries, scores, mixes, packed, totals }| {
            self.gather(queries, packed, query);
            let size = partial_size(self.heads.value_dim);
            let totals = room(totals, self.seen.len() * self.group * size);
            for (q, total) in totals.chunks_exact_mut(size).enumerate() {
                begin(total, self.rules.sink(self.first + q % self.group));
            }
            for block in blocks(self.seen) {
                self.block(block, queries, (scores, mixes, packed), |first, parts| {
                    merge(&mut totals[first * size..], parts, size, self.f32);
                });
            }
            for (row, totals) in totals.chunks_exact(self.group * size).enumerate() {
                for (out, total) in out(row).chunks_exact_mut(self.heads.value_dim).zip(totals.chunks_exact(size)) {
                    finish(out, total, self.f32);
                }
            }
        });
    }

    /// What one block gives, `[rows * group, partial_size]`: [`merged`] makes the result of all blocks' parts.
    pub(crate) fn part<'q>(&self, block: usize, query: impl Fn(usize) -> &'q [f32], parts: &mut [f32]) {
        if !blocks(self.seen).contains(&block) {
            return;
        }
        SCRATCH.with_borrow_mut(|Scratch { queries, scores, mixes, packed, .. }| {
            self.gather(queries, packed, query);
            let size = partial_size(self.heads.value_dim);
            self.block(block, queries, (scores, mixes, packed), |first, some| {
                for (place, part) in parts[first * size..].chunks_exact_mut(size).zip(some) {
                    (place[0], place[1]) = (part.max, part.sum);
                    place[2..][..part.mix.len()].copy_from_slice(part.mix);
                }
            });
        });
    }

    /// Puts the queries next to each other, times the scale of the scores, and packs them where they are to be.
    fn gather<'q>(&self, queries: &mut Vec<f32>, packed: &mut Packed, query: impl Fn(usize) -> &'q [f32]) {
        queries.clear();
        (0..self.seen.len()).for_each(|row| queries.extend_from_slice(query(row)));
        (self.f32.scale)(queries, self.heads.scale);
        if let Some(tiled) = &self.tiled {
            self.pack(tiled, queries, packed);
        }
    }

    /// Hands to `each` what a block gives some queries, and the number of their first.
    fn block(
        &self,
        block: usize,
        queries: &[f32],
        (scores, mixes, packed): (&mut Vec<f32>, &mut Vec<f32>, &mut Packed),
        mut each: impl FnMut(usize, &[Part<'_>]),
    ) {
        if let Some(tiled) = &self.tiled {
            return self.block_tiled(tiled, block, packed, each);
        }
        let (start, width) = (block * BLOCK, padded(self.heads.value_dim));
        let (scores, mixes) = (room(scores, TILE * BLOCK), room(mixes, TILE * width));
        for (tile, queries) in queries.chunks(TILE * self.heads.key_dim).enumerate() {
            let (first, count) = (tile * TILE, queries.len() / self.heads.key_dim);
            // Where what a query sees of the block begins and ends; both at 0 where it sees nothing.
            let mut seen = [(0, 0); TILE];
            for (i, part) in seen.iter_mut().enumerate().take(count) {
                let seen = &self.seen[(first + i) / self.group];
                let (from, to) = (seen.start.saturating_sub(start), seen.end.saturating_sub(start).min(BLOCK));
                if from < to {
                    *part = (from, to);
                }
            }
            let most = seen.iter().map(|(_, to)| *to).max().unwrap_or(0);
            if most == 0 {
                continue;
            }
            // Panels that none of them sees are left out.
            let least = seen.iter().filter(|(_, to)| *to > 0).map(|(from, _)| *from).min().unwrap_or(0) / PANEL;
            let keys = self.kv.keys(start + least * PANEL, most.div_ceil(PANEL) - least);
            let out = OutTile { values: &mut scores[least * PANEL..], stride: BLOCK };
            (self.kv.keys.kernels.scores)(out, Queries { dim: self.heads.key_dim, values: queries }, keys);
            let mut softmax = [(f32::NEG_INFINITY, 0.0); TILE];
            let rows = scores.chunks_exact_mut(BLOCK).zip(&seen).zip(&mut softmax).enumerate();
            for (i, ((scores, &(from, to)), (max, sum))) in rows.filter(|(_, ((_, (_, to)), _))| *to > 0) {
                let scores = &mut scores[from..to];
                let (row, head) = ((first + i) / self.group, (first + i) % self.group);
                self.rules.adjust(scores, self.first + head, (self.positions[row], start + from), self.f32);
                *max = (self.f32.max)(scores);
                *sum = (self.f32.exp_sum)(scores, base(*max));
            }
            let mixes = &mut mixes[..count * width];
            mixes.fill(0.0);
            // Queries that begin at the same position are mixed together: a value before it must not be touched, not
            // even by a weight of 0.
            let mut next = 0;
            for run in seen[..count].chunk_by(|a, b| a.0 == b.0) {
                let (i, from) = (next, run[0].0);
                next += run.len();
                let mut counts = [0; TILE];
                counts.iter_mut().zip(run).for_each(|(count, (from, to))| *count = to - from);
                let counts = &counts[..run.len()];
                let values = &scores[i * BLOCK + from..];
                let longest = counts.iter().copied().max().unwrap_or(0);
                let weights = Weights { values, stride: BLOCK, counts };
                let rows = self.kv.values(start + from, longest);
                (self.kv.values.kernels.mix)(&mut mixes[i * width..next * width], weights, rows);
            }
            let mut parts = [Part::NOTHING; TILE];
            for (i, (mix, (max, sum))) in mixes.chunks_exact(width).zip(softmax).enumerate() {
                if seen[i].1 > 0 {
                    parts[i] = Part { max, sum, mix };
                }
            }
            each(first, &parts[..count]);
        }
    }
}

/// What is known before the first position: nothing, or the score of a sink.
fn begin(total: &mut [f32], sink: Option<f32>) {
    total.fill(0.0);
    (total[0], total[1]) = sink.map_or((f32::NEG_INFINITY, 0.0), |sink| (sink, 1.0));
}

/// Adds what the next positions gave to the totals of as many queries, `size` floats each. All their factors are one run of
/// exponentials: each by itself would wait for its own.
fn merge(totals: &mut [f32], parts: &[Part<'_>], size: usize, f32: &F32Kernels) {
    let mut factors = [[0.0; 2]; GROUP];
    let factors = &mut factors[..parts.len()];
    let larger = |total: &[f32], part: &Part<'_>| if part.max > total[0] { part.max } else { total[0] };
    for (factors, (total, part)) in factors.iter_mut().zip(totals.chunks_exact(size).zip(parts)) {
        let base = base(larger(total, part));
        *factors = [total[0] - base, part.max - base];
    }
    (f32.exp_sum)(factors.as_flattened_mut(), 0.0);
    for (&mut [old, new], (total, part)) in factors.iter_mut().zip(totals.chunks_exact_mut(size).zip(parts)) {
        if part.mix.is_empty() {
            continue;
        }
        total[0] = larger(total, part);
        total[1] = total[1] * old + part.sum * new;
        let mix = &mut total[2..];
        if old != 1.0 {
            (f32.scale)(mix, old);
        }
        (f32.axpy)(mix, new, part.mix);
    }
}

/// The mix of all positions: sums of weighted values by the sum of the weights.
fn finish(out: &mut [f32], total: &[f32], f32: &F32Kernels) {
    out.copy_from_slice(&total[2..][..out.len()]);
    (f32.scale)(out, 1.0 / total[1]);
}

/// The result of a query that sees the positions `seen` from what [`Task::part`] gave of each block; `part(block)` is one.
pub(crate) fn merged<'p>(
    out: &mut [f32],
    (seen, sink): (Range<usize>, Option<f32>),
    part: impl Fn(usize) -> &'p [f32],
    f32: &F32Kernels,
) {
    SCRATCH.with_borrow_mut(|Scratch { totals, .. }| {
        let size = partial_size(out.len());
        let total = room(totals, size);
        begin(total, sink);
        for block in seen.start / BLOCK..seen.end.div_ceil(BLOCK) {
            let [max, sum, mix @ ..] = part(block) else { return };
            merge(total, &[Part { max: *max, sum: *sum, mix }], size, f32);
        }
        finish(out, total, f32);
    });
}
