//! A block of positions by kernels for many queries: keys and values are packed once for all queries of a task.

use std::ops::Range;

use candor_kernels::{
    GROUP, Line, PAIR, Queries, WEIGHT_LINES, Weights, key_lines, mixed, padded, query_lines, value_lines,
};

use super::task::{BLOCK, Part, Task, base};
use crate::buffer::room;
use crate::kv::Tiled;

/// Scratch of a task.
#[derive(Default)]
pub(super) struct Packed {
    /// Those of all groups.
    queries: Vec<Line>,
    keys: Vec<Line>,
    values: Vec<Line>,
    /// `[GROUP, BLOCK]` floats
    scores: Vec<Line>,
    weights: Vec<Line>,
    /// `[GROUP, mixed value_dim]` floats
    mixes: Vec<Line>,
    /// A query's mix by rows.
    row: Vec<f32>,
}

/// From the first to the last position of some ranges; empty ones do not count.
fn cover(ranges: impl Iterator<Item = Range<usize>>) -> Range<usize> {
    let both = |a: Range<usize>, b: Range<usize>| a.start.min(b.start)..a.end.max(b.end);
    ranges.filter(|range| !range.is_empty()).reduce(both).unwrap_or_default()
}

impl Task<'_> {
    /// Packs the queries, for [`Task::block_tiled`].
    pub(super) fn pack(&self, Tiled { keys, .. }: &Tiled, queries: &[f32], packed: &mut Packed) {
        let dim = self.heads.key_dim;
        let lines = (queries.len() / dim).div_ceil(GROUP) * query_lines(dim);
        (keys.products.pack_queries)(room(&mut packed.queries, lines), Queries { dim, values: queries });
    }

    /// What a row sees of the block that begins at `start`, from there.
    fn seen_of(&self, row: usize, start: usize) -> Range<usize> {
        let seen = &self.seen[row];
        let (from, to) = (seen.start.saturating_sub(start), seen.end.saturating_sub(start).min(BLOCK));
        if from < to { from..to } else { 0..0 }
    }

    /// As [`Task::block`], whose queries are packed.
    pub(super) fn block_tiled(
        &self,
        Tiled { keys, values }: &Tiled,
        block: usize,
        packed: &mut Packed,
        mut each: impl FnMut(usize, &[Part<'_>]),
    ) {
        let (start, products) = (block * BLOCK, keys.products);
        let (key_dim, width) = (self.heads.key_dim, padded(self.heads.value_dim));
        let all = cover((0..self.seen.len()).map(|row| self.seen_of(row, start)));
        if all.is_empty() {
            return;
        }
        let pairs = all.start / PAIR..all.end.div_ceil(PAIR);
        let (packed_keys, stride) = (room(&mut packed.keys, key_lines(key_dim)), mixed(width));
        let panels = self.kv.keys(start + pairs.start * PAIR, 2 * pairs.len());
        (keys.pack_keys)(packed_keys, key_dim, pairs, panels);
        let packed_values = room(&mut packed.values, value_lines(width));
        let rows = self.kv.values(start + all.start, all.len());
        let finite = (values.pack_values)(packed_values, width, all, rows);
        let scores = Line::floats_mut(room(&mut packed.scores, GROUP * BLOCK / 16));
        let weights = room(&mut packed.weights, WEIGHT_LINES);
        let mixes = Line::floats_mut(room(&mut packed.mixes, GROUP * stride / 16));
        let (count, lines) = (self.seen.len() * self.group, query_lines(key_dim));
        for (first, queries) in (0..count).step_by(GROUP).zip(packed.queries.chunks_exact(lines)) {
            let mut seen = [const { 0..0 }; GROUP];
            let seen = &mut seen[..GROUP.min(count - first)];
            for (i, seen) in seen.iter_mut().enumerate() {
                *seen = self.seen_of((first + i) / self.group, start);
            }
            let some = cover(seen.iter().cloned());
            if some.is_empty() {
                continue;
            }
            let pairs = some.start / PAIR..some.end.div_ceil(PAIR);
            (products.scores)(scores, queries, packed_keys, pairs.clone());
            for (i, seen) in seen.iter().enumerate() {
                let (row, head) = ((first + i) / self.group, self.first + (first + i) % self.group);
                let scores = &mut scores[i * BLOCK..][seen.clone()];
                self.rules.adjust(scores, head, (self.positions[row], start + seen.start), self.f32);
            }
            let softmax = (products.softmax)(weights, scores, seen, pairs.clone());
            (products.mix)(mixes, weights, packed_values, pairs);
            let mut parts = [Part::NOTHING; GROUP];
            let results = parts.iter_mut().zip(mixes.chunks_exact_mut(stride)).zip(seen.iter().zip(softmax));
            for (i, ((part, mix), (seen, (max, sum)))) in
                results.enumerate().filter(|(_, (_, (seen, _)))| !seen.is_empty())
            {
                let mix = &mut mix[..width];
                if !finite {
                    let scores = &mut scores[i * BLOCK..][seen.clone()];
                    (self.f32.exp_sum)(scores, base(max));
                    self.spread(mix, scores, start + seen.start, room(&mut packed.row, width));
                }
                *part = Part { max, sum, mix };
            }
            each(first, &parts[..seen.len()]);
        }
    }

    /// Values that are infinite or no numbers are packed as zeros, lest a query whose weight of them is zero knows of them:
    /// gives elements of a mix what they are with those that the query sees.
    fn spread(&self, mix: &mut [f32], weights: &[f32], position: usize, row: &mut [f32]) {
        row.fill(0.0);
        let weights = Weights { values: weights, stride: BLOCK, counts: &[weights.len()] };
        (self.kv.values.kernels.mix)(row, weights, self.kv.values(position, weights.counts[0]));
        for (mix, row) in mix.iter_mut().zip(row).filter(|(_, row)| !row.is_finite()) {
            *mix = *row;
        }
    }
}
