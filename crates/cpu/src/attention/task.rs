//! What a thread attends at a time, and what comes of a block.

use std::ops::Range;

use candor_kernels::F32Kernels;
use candor_ops::Heads;

use crate::kv::{Head, Tiled};
use crate::rules::Rules;

/// Positions of a block: enough to hide the cost of merging, few enough that its keys and values stay in the
/// second-level cache while all queries of a task meet them.
pub(crate) const BLOCK: usize = candor_kernels::BLOCK;

/// Some heads of some rows that share a key and value head.
pub(crate) struct Task<'a> {
    pub(crate) kv: Head<'a>,
    pub(crate) heads: Heads,
    /// Query heads per row.
    pub(crate) group: usize,
    /// The first of them among the layer's query heads.
    pub(crate) first: usize,
    /// Positions that each row sees.
    pub(crate) seen: &'a [Range<usize>],
    /// Where each row stands.
    pub(crate) positions: &'a [u32],
    pub(crate) rules: &'a Rules<'a>,
    pub(crate) f32: &'a F32Kernels,
    /// Kernels for many queries, if these take them.
    pub(crate) tiled: Option<Tiled>,
}

/// What a block gave a query; without a mix if the query sees nothing of it.
#[derive(Clone, Copy)]
pub(super) struct Part<'a> {
    pub(super) max: f32,
    pub(super) sum: f32,
    pub(super) mix: &'a [f32],
}

impl Part<'_> {
    pub(super) const NOTHING: Part<'static> = Part { max: f32::NEG_INFINITY, sum: 0.0, mix: &[] };
}

/// What exponentials are taken less of: where every score is minus infinity they are 0, so that later positions count
/// alone, and NaN when there are none.
pub(super) fn base(max: f32) -> f32 {
    if max == f32::NEG_INFINITY { 0.0 } else { max }
}
