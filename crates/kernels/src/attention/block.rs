//! Attention of many queries with a block of positions at a time. Keys and values are packed once and meet groups of
//! queries; products are those of numbers of 16 significant bits, so the sums are not those of `scores` and `mix`.
//!
//! Everything packed lies in lines: [`PAIR_LINES`] of them for 32 queries, positions or dimensions of each kind, large
//! halves first. What a query becomes depends on itself and on what it sees, not on the queries beside it.

use std::ops::Range;

use crate::{Line, PANEL, Queries};

/// Positions of a block.
pub const BLOCK: usize = 256;
/// Queries of a group, which meet keys and values together.
pub const GROUP: usize = 32;
/// Positions of a pair of panels: what is multiplied together.
pub const PAIR: usize = 2 * PANEL;
/// Lines of a step: 32 columns of 32 rows in two halves.
pub(crate) const PAIR_LINES: usize = 64;
/// Lines of a group's packed weights.
pub const WEIGHT_LINES: usize = BLOCK / PAIR * PAIR_LINES;

/// Some of a block's pairs of panels.
pub type Pairs = Range<usize>;

/// Positions of a block that a query sees.
pub type Seen = Range<usize>;

/// What packs the keys and values of a cache format.
#[derive(Clone, Copy)]
pub struct BlockKernels {
    /// Packs whole pairs of a block's panels; the room of others is left as it is.
    pub pack_keys: fn(packed: &mut [Line], dim: usize, pairs: Pairs, panels: &[u8]),
    /// Packs the values of some positions, rows of `width` numbers, and zeros for others of the same pairs. Numbers that
    /// are infinite or none become zero; says whether there were no such.
    pub pack_values: fn(packed: &mut [Line], width: usize, positions: Range<usize>, rows: &[u8]) -> bool,
    /// The products, which are the same for all formats.
    pub products: &'static BlockProducts,
}

/// Products of packed queries with packed keys, and of their weights with packed values.
#[derive(Clone, Copy)]
pub struct BlockProducts {
    /// Packs queries, group by group; queries that the last group lacks are zero.
    pub pack_queries: fn(packed: &mut [Line], queries: Queries<'_>),
    /// `out[q][p] = queries[q] . keys[p]` for a group and some pairs of panels; rows of `out` are [`BLOCK`] apart. An infinite
    /// number makes its scores NaN.
    pub scores: fn(out: &mut [f32], queries: &[Line], keys: &[Line], pairs: Pairs),
    /// Packs `exp(score - max)` of the positions that each query of a group sees and zeros for the others of the pairs;
    /// gives the largest score and the sum of the exponentials. None is below `e^-87`, unless all scores are negative infinity.
    /// A score that is no number makes the sum NaN.
    pub softmax: fn(weights: &mut [Line], scores: &[f32], seen: &[Seen], pairs: Pairs) -> Softmax,
    /// `out[q] = sum of weights[q][p] * values[p]` over some pairs of panels; rows of `out` are [`mixed`] wide.
    pub mix: fn(out: &mut [f32], weights: &[Line], values: &[Line], pairs: Pairs),
}

/// The largest score of each query of a group and the sum of its exponentials: negative infinity and 0 of one that sees nothing.
pub type Softmax = [(f32, f32); GROUP];

/// Steps of 32 dimensions.
fn steps(dim: usize) -> usize {
    dim.div_ceil(32)
}

/// Lines of a group's packed queries.
pub fn query_lines(dim: usize) -> usize {
    steps(dim) * PAIR_LINES
}

/// Lines of a block's packed keys.
pub fn key_lines(dim: usize) -> usize {
    BLOCK / PAIR * steps(dim) * PAIR_LINES
}

/// Lines of a block's packed values.
pub fn value_lines(width: usize) -> usize {
    BLOCK / PAIR * steps(width) * PAIR_LINES
}

/// Numbers of a mix with values of `width` numbers; the last ones are zero.
pub fn mixed(width: usize) -> usize {
    steps(width) * 32
}
