//! Attention's kernels, and how cached keys and values lie in memory so that no product needs a shuffle.
//!
//! Keys lie in panels of [`PANEL`] positions: a dimension's numbers of all positions side by side, so that lane =
//! position. Values lie in rows, one per position, of whole groups of [`PANEL`] numbers: lane = dimension. Q8_0 keeps
//! 32 numbers of a position in 34 bytes either way: a panel is, for every 32 dimensions, the 16 scales as halves and
//! then 32 times 16 signed bytes; a row is GGUF's blocks. Q4_0 has 18 bytes instead, and its panels 16 times 16 bytes, of
//! which each has a dimension in its low half and the one 16 further in its high half.
//!
//! Both products take one step after another (dimensions of a score, positions of a mix) in one sum per element, so a
//! result depends neither on the size of a tile nor on the queries beside it. Queries and weights stay f32: numbers of
//! 8 bits are widened exactly, scale and all.

pub(crate) mod block;
#[cfg(any(
    target_arch = "x86_64",
    all(target_arch = "aarch64", target_endian = "little"),
    all(target_arch = "wasm32", target_feature = "simd128")
))]
pub(crate) mod tiles;

use candor_quant::Format;

use crate::{BlockKernels, OutTile};

/// Positions of a panel of keys; numbers of a value's row come in whole groups of as many.
pub const PANEL: usize = 16;

/// The kernels of a cache format.
#[derive(Clone, Copy)]
pub struct AttentionKernels {
    /// What cached numbers are.
    pub format: Format,
    /// `out[q][p] = queries[q] . keys[p]` for every position of whole panels.
    pub scores: fn(out: OutTile<'_>, queries: Queries<'_>, keys: &[u8]),
    /// `out[q] += sum of weights[q][p] * values[p]` over the first positions, as many as the query has weights.
    pub mix: fn(out: &mut [f32], weights: Weights<'_>, values: &[u8]),
    /// Writes a position's key into its lane of a panel.
    pub put_key: fn(panel: &mut [u8], lane: usize, key: &[f32]),
    /// Writes a position's value into its row, and zeros up to a whole group.
    pub put_value: fn(row: &mut [u8], value: &[f32]),
    /// What packs blocks for many queries at once; `None` where `scores` and `mix` serve any number.
    pub block: Option<BlockKernels>,
}

/// Query heads, back to back.
#[derive(Clone, Copy, Debug)]
pub struct Queries<'a> {
    /// Numbers of each.
    pub dim: usize,
    /// `[queries * dim]`.
    pub values: &'a [f32],
}

/// What a mix takes of each position.
#[derive(Clone, Copy, Debug)]
pub struct Weights<'a> {
    /// Starts at the first query's weights.
    pub values: &'a [f32],
    /// Elements from one query's weights to the next's.
    pub stride: usize,
    /// Positions that each query takes; the weights after them are not read.
    pub counts: &'a [usize],
}

impl AttentionKernels {
    /// Bytes of a panel of keys; `None` if `dim` is not a whole number of blocks.
    pub fn panel_bytes(&self, dim: usize) -> Option<usize> {
        self.format.row_bytes(dim)?.checked_mul(PANEL)
    }

    /// Bytes of a value's row; `None` if `dim` is not a whole number of blocks.
    pub fn row_bytes(&self, dim: usize) -> Option<usize> {
        self.format.row_bytes(dim.max(1))?;
        self.format.row_bytes(padded(dim))
    }
}

/// Numbers of a value's row in memory, and of its mix.
pub fn padded(dim: usize) -> usize {
    dim.next_multiple_of(PANEL)
}

/// The shape of a call of `scores`.
#[cfg_attr(
    not(any(
        target_arch = "x86_64",
        all(target_arch = "aarch64", target_endian = "little"),
        all(target_arch = "wasm32", target_feature = "simd128")
    )),
    allow(dead_code, reason = "the scalar kernels walk in panels")
)]
pub(crate) struct Scores {
    pub queries: usize,
    pub panels: usize,
    pub panel_bytes: usize,
}

/// Checks a call of `scores`.
///
/// # Panics
/// Where slices and counts disagree: a broken promise of the caller.
pub(crate) fn check_scores(out: &OutTile<'_>, format: Format, queries: Queries<'_>, keys: &[u8]) -> Scores {
    let Queries { dim, values } = queries;
    assert!(dim > 0 && values.len().is_multiple_of(dim), "{format} scores: queries");
    let panel_bytes =
        PANEL * format.row_bytes(dim).expect("dimensions are whole blocks: checked with the cache's plan");
    assert!(keys.len().is_multiple_of(panel_bytes), "{format} scores: keys");
    let (queries, panels) = (values.len() / dim, keys.len() / panel_bytes);
    if queries > 0 && panels > 0 {
        assert!(queries == 1 || panels * PANEL <= out.stride, "{format} scores: stride {}", out.stride);
        let end = (queries - 1) * out.stride + panels * PANEL;
        assert!(end <= out.values.len(), "{format} scores: output ends at {end}, got {}", out.values.len());
    }
    Scores { queries, panels, panel_bytes }
}

/// The shape of a call of `mix`.
pub(crate) struct Mix {
    /// Numbers of a row, a multiple of [`PANEL`].
    pub width: usize,
    pub row_bytes: usize,
}

/// Checks a call of `mix`.
///
/// # Panics
/// As [`check_scores`].
pub(crate) fn check_mix(out: &[f32], format: Format, weights: Weights<'_>, values: &[u8]) -> Mix {
    let queries = weights.counts.len();
    let width = out.len().checked_div(queries).unwrap_or(0);
    assert!(width * queries == out.len() && width.is_multiple_of(PANEL), "{format} mix: output of {}", out.len());
    let row_bytes = format.row_bytes(width).expect("dimensions are whole blocks: checked with the cache's plan");
    for (q, &count) in weights.counts.iter().enumerate() {
        assert!(q * weights.stride + count <= weights.values.len(), "{format} mix: weights of query {q}");
        assert!(count * row_bytes <= values.len(), "{format} mix: {count} positions of {} bytes", values.len());
    }
    Mix { width, row_bytes }
}
