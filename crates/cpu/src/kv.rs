//! The key-value cache.

use std::ops::Range;

use candor_kernels::F32Kernels;
use candor_ops::{KvFormat, KvPlan};

/// Keys and values, `[layer][sequence][kv_head][position][dim]`: a head's positions lie one after another.
///
/// Memory of positions that were never written is not touched, so on common systems it takes no room.
pub struct Kv {
    pub(crate) plan: KvPlan,
    keys: Store,
    values: Store,
}

enum Store {
    F32(Vec<f32>),
    F16(Vec<u16>),
}

/// Keys and values of one head, `[positions, dim]` each.
#[derive(Clone, Copy)]
pub(crate) struct Head<'a> {
    pub(crate) keys: Run<'a>,
    pub(crate) values: Run<'a>,
}

/// Cached rows, one position after another.
#[derive(Clone, Copy)]
pub(crate) enum Run<'a> {
    F32(&'a [f32]),
    F16(&'a [u16]),
}

impl Store {
    fn new(format: KvFormat, len: usize) -> Store {
        match format {
            KvFormat::F32 => Store::F32(vec![0.0; len]),
            KvFormat::F16 => Store::F16(vec![0; len]),
        }
    }

    fn write(&mut self, at: usize, x: &[f32], f32: &F32Kernels) {
        match self {
            Store::F32(values) => values[at..at + x.len()].copy_from_slice(x),
            Store::F16(values) => (f32.to_f16)(&mut values[at..at + x.len()], x),
        }
    }

    fn run(&self, range: Range<usize>) -> Run<'_> {
        match self {
            Store::F32(values) => Run::F32(&values[range]),
            Store::F16(values) => Run::F16(&values[range]),
        }
    }
}

impl Kv {
    pub(crate) fn new(plan: &KvPlan) -> Kv {
        let rows = plan.layers * plan.sequences * plan.kv_heads * plan.context;
        let (keys, values) =
            (Store::new(plan.keys, rows * plan.key_dim), Store::new(plan.values, rows * plan.value_dim));
        Kv { plan: *plan, keys, values }
    }

    /// Index of a head's first position.
    fn first(&self, layer: usize, sequence: usize, head: usize) -> usize {
        let plan = &self.plan;
        assert!(layer < plan.layers && sequence < plan.sequences && head < plan.kv_heads, "outside of the cache");
        ((layer * plan.sequences + sequence) * plan.kv_heads + head) * plan.context
    }

    /// Stores one position's keys, `[kv_heads * key_dim]`, and values, `[kv_heads * value_dim]`.
    pub(crate) fn write(&mut self, layer: usize, place: (u32, u32), k: &[f32], v: &[f32], f32: &F32Kernels) {
        let (sequence, position) = (place.0 as usize, place.1 as usize);
        assert!(position < self.plan.context, "position {position} outside of a cache of {}", self.plan.context);
        let (key_dim, value_dim) = (self.plan.key_dim, self.plan.value_dim);
        for (head, (k, v)) in k.chunks_exact(key_dim).zip(v.chunks_exact(value_dim)).enumerate() {
            let row = self.first(layer, sequence, head) + position;
            self.keys.write(row * key_dim, k, f32);
            self.values.write(row * value_dim, v, f32);
        }
    }

    /// A head's first `positions` positions.
    pub(crate) fn head(&self, layer: usize, sequence: u32, head: usize, positions: usize) -> Head<'_> {
        assert!(positions <= self.plan.context, "{positions} positions of a cache of {}", self.plan.context);
        let first = self.first(layer, sequence as usize, head);
        let range = |dim: usize| first * dim..(first + positions) * dim;
        Head { keys: self.keys.run(range(self.plan.key_dim)), values: self.values.run(range(self.plan.value_dim)) }
    }
}
