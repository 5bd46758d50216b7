//! Attention of a step: its rows and heads dealt out to threads.
//!
//! Rows of one sequence and the heads that share keys and values go together. Where that leaves threads without work,
//! as in decoding, blocks of positions are dealt out one by one and merged afterwards, or the heads are parted.

use std::ops::Range;

use candor_kernels::{F32Kernels, GROUP};
use candor_ops::{Attention, Heads, Step};

use crate::attention::{BLOCK, Cut, QUERIES, Spans, TILED_QUERIES, Takes, Task, merged, partial_size};
use crate::buffer::room;
use crate::kv::Tiled;
use crate::pool::Pool;
use crate::rules::Rules;
use crate::split::Split;
use crate::{Batching, Buf, Kv, Weight};

/// Where the keys and values are.
#[derive(Clone, Copy)]
pub(crate) struct Cache<'a> {
    pub(crate) kv: &'a Kv,
    pub(crate) layer: usize,
}

/// What attention keeps from one step to the next.
#[derive(Default)]
pub(crate) struct Attend {
    spans: Spans,
    /// `[tasks][blocks][most queries of a task, partial_size]`
    parts: Vec<f32>,
    /// Scores by distance, decoded.
    relative: Vec<f32>,
}

/// One call.
struct Call<'a> {
    q: &'a Buf,
    out: Split<'a, f32>,
    cache: Cache<'a>,
    heads: Heads,
    step: &'a Step<'a>,
    spans: &'a Spans,
    rules: &'a Rules<'a>,
    f32: &'a F32Kernels,
    /// Kernels for many queries, for the spans that take them.
    tiled: Option<Tiled>,
    /// Query heads of a key and value head.
    group: usize,
    /// Most query heads of a task per row.
    together: usize,
}

/// A task's place: some rows, and some query heads that share a key and value head.
struct Place<'a> {
    rows: Range<usize>,
    /// Query heads, counted over all key and value heads.
    queries: Range<usize>,
    task: Task<'a>,
}

impl Call<'_> {
    /// Tasks of a span.
    fn per_span(&self) -> usize {
        self.heads.kv_heads * self.group.div_ceil(self.together)
    }

    fn place(&self, index: usize) -> Place<'_> {
        let parts = self.group.div_ceil(self.together);
        let (span, kv_head, part) = (index / self.per_span(), index / parts % self.heads.kv_heads, index % parts);
        let within = part * self.together..self.group.min((part + 1) * self.together);
        let queries = kv_head * self.group + within.start..kv_head * self.group + within.end;
        let (rows, seen, tiled) = self.spans.get(span);
        let kv = self.cache.kv.head(self.cache.layer, self.step.sequences[rows.start], kv_head);
        let (positions, rules) = (&self.step.positions[rows.clone()], self.rules);
        let (heads, first) = (self.heads, queries.start);
        Place {
            rows,
            task: Task {
                kv,
                heads,
                group: queries.len(),
                first,
                seen,
                positions,
                rules,
                f32: self.f32,
                tiled: self.tiled.filter(|_| tiled),
            },
            queries,
        }
    }

    fn query(&self, place: &Place<'_>, row: usize) -> &[f32] {
        let dim = self.heads.key_dim;
        &self.q.row(place.rows.start + row)[place.queries.start * dim..place.queries.end * dim]
    }

    /// Attends one task over all its positions.
    fn whole(&self, index: usize) {
        let place = self.place(index);
        let dim = self.heads.value_dim;
        place.task.run(
            |row| self.query(&place, row),
            |row| {
                let columns = place.queries.start * dim..place.queries.end * dim;
                // SAFETY: each index is run once, and no two have both rows and heads in common.
                unsafe { self.out.cell(place.rows.start + row, columns) }
            },
        );
    }
}

impl Attend {
    /// `out = attend(q, cache)`.
    pub(crate) fn run(
        &mut self,
        out: &mut Buf,
        q: &Buf,
        cache: Cache<'_>,
        attention: Attention<'_, Weight>,
        step: &Step,
        (pool, f32, batching): (&Pool, &F32Kernels, Batching),
    ) {
        assert!(cache.kv.holds(cache.layer, attention.mask, q.rows), "attention looks back further than the cache");
        let (heads, rules) = (attention.heads, Rules::new(&attention, &mut self.relative));
        let group = heads.heads / heads.kv_heads;
        let together = group.min(QUERIES);
        let tiled = cache.kv.tiled(cache.layer).filter(|_| batching != Batching::Invariant);
        let takes = match (tiled, batching) {
            (Some(_), Batching::ByRole) => Takes::Prompts(q.rows - q.decoding),
            (Some(_), Batching::Fastest) => Takes::Many(GROUP.div_ceil(together)),
            _ => Takes::Nothing,
        };
        // Runs are shorter where there would be no task for each thread, but no shorter than a group of queries.
        let (heads_apart, wanted) = (heads.kv_heads * group.div_ceil(together), 2 * pool.threads());
        let fair = (q.rows * heads_apart).div_ceil(wanted).max(GROUP.div_ceil(together));
        let tiled_rows = fair.min(TILED_QUERIES / together);
        self.spans.cut(step, attention.mask, Cut { rows: QUERIES / together, tiled_rows, tiled: takes });
        let width = out.width;
        let out = Split::new(out.live_mut(), width);
        let mut call =
            Call { q, out, cache, heads, step, spans: &self.spans, rules: &rules, f32, tiled, group, together };
        let tasks = self.spans.len() * call.per_span();
        let blocks = self.spans.blocks();
        if pool.threads() == 1 || tasks == 0 || tasks >= wanted {
            pool.run(tasks, &|index| call.whole(index));
        } else if blocks.len() == 1 {
            call.together = (together / wanted.div_ceil(tasks)).max(1);
            pool.run(self.spans.len() * call.per_span(), &|index| call.whole(index));
        } else {
            by_blocks(&call, tasks, &blocks, &mut self.parts, pool);
        }
    }
}

/// Deals out the blocks of every task that are seen, and then the merging.
fn by_blocks(call: &Call<'_>, tasks: usize, blocks: &Range<usize>, parts: &mut Vec<f32>, pool: &Pool) {
    let size = partial_size(call.heads.value_dim);
    let width = call.spans.longest() * call.together * size;
    // Room for a full context at once: it is not touched before it is used.
    let most = call.cache.kv.plan.context.div_ceil(BLOCK);
    parts.reserve((tasks * most * width).saturating_sub(parts.len()));
    let count = blocks.len();
    let parts = room(parts, tasks * count * width);
    let split = Split::new(parts, width);
    pool.run(tasks * count, &|index| {
        let place = call.place(index / count);
        // SAFETY: each index is run once, and has a row of its own.
        let part = unsafe { split.cell(index, 0..width) };
        place.task.part(blocks.start + index % count, |row| call.query(&place, row), part);
    });
    let parts = &*parts;
    pool.run(tasks, &|index| {
        let place = call.place(index);
        let dim = call.heads.value_dim;
        for (i, seen) in place.task.seen.iter().enumerate() {
            for (h, head) in place.queries.clone().enumerate() {
                // SAFETY: each index is run once, and no two have both rows and heads in common.
                let out = unsafe { call.out.cell(place.rows.start + i, head * dim..(head + 1) * dim) };
                let at = (i * place.queries.len() + h) * size;
                let seen = (seen.clone(), call.rules.sink(head));
                merged(
                    out,
                    seen,
                    |block| &parts[(index * count + block - blocks.start) * width + at..][..size],
                    call.f32,
                );
            }
        }
    });
}
