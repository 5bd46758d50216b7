//! The key-value cache.

use candor_kernels::{AttentionKernels, Kernels, PANEL};
use candor_ops::{KvFormat, KvPlan};

use crate::memory::{Pages, Zeroed};

/// Keys, `[layer][sequence][kv_head]` panels of positions, and values, `[layer][sequence][kv_head][position]` rows, as
/// the instruction set's attention wants them.
///
/// Memory of positions that were never written is not touched, so on common systems it takes no room.
pub struct Kv {
    pub(crate) plan: KvPlan,
    keys: Store,
    values: Store,
}

/// Keys or values of all heads.
struct Store {
    kernels: AttentionKernels,
    /// Bytes of a panel of keys, or of a value's row.
    unit: usize,
    /// Panels or rows of a head.
    units: usize,
    bytes: Zeroed,
}

/// Keys and values of one head.
#[derive(Clone, Copy)]
pub(crate) struct Head<'a> {
    pub(crate) keys: Units<'a>,
    pub(crate) values: Units<'a>,
}

/// Panels of a head's keys, or rows of its values.
#[derive(Clone, Copy)]
pub(crate) struct Units<'a> {
    pub(crate) kernels: &'a AttentionKernels,
    unit: usize,
    bytes: &'a [u8],
}

impl<'a> Units<'a> {
    /// The bytes of `count` units from `first` on.
    pub(crate) fn range(&self, first: usize, count: usize) -> &'a [u8] {
        &self.bytes[first * self.unit..(first + count) * self.unit]
    }
}

impl Store {
    fn new(kernels: AttentionKernels, unit: Option<usize>, units: usize, heads: usize, pages: Pages) -> Store {
        let unit = unit.expect("head dimensions are whole blocks: the plan was checked");
        Store { kernels, unit, units, bytes: Zeroed::new(heads * units * unit, pages) }
    }

    fn head(&self, head: usize) -> Units<'_> {
        let bytes = self.units * self.unit;
        Units { kernels: &self.kernels, unit: self.unit, bytes: &self.bytes.get()[head * bytes..][..bytes] }
    }

    fn unit_mut(&mut self, head: usize, unit: usize) -> &mut [u8] {
        &mut self.bytes.get_mut()[(head * self.units + unit) * self.unit..][..self.unit]
    }
}

impl Kv {
    pub(crate) fn new(plan: &KvPlan, kernels: &Kernels, pages: Pages) -> Kv {
        let attention =
            |format: KvFormat| (kernels.attention)(format.format()).expect("every table has the formats of the cache");
        let heads = plan.layers * plan.sequences * plan.kv_heads;
        let (keys, values) = (attention(plan.keys), attention(plan.values));
        Kv {
            plan: *plan,
            keys: Store::new(keys, keys.panel_bytes(plan.key_dim), plan.context.div_ceil(PANEL), heads, pages),
            values: Store::new(values, values.row_bytes(plan.value_dim), plan.context, heads, pages),
        }
    }

    /// The number of a head among those of all layers and sequences.
    fn number(&self, layer: usize, sequence: u32, head: usize) -> usize {
        let (plan, sequence) = (&self.plan, sequence as usize);
        assert!(layer < plan.layers && sequence < plan.sequences && head < plan.kv_heads, "outside of the cache");
        (layer * plan.sequences + sequence) * plan.kv_heads + head
    }

    /// Stores one position's keys, `[kv_heads * key_dim]`, and values, `[kv_heads * value_dim]`.
    pub(crate) fn write(&mut self, layer: usize, place: (u32, u32), k: &[f32], v: &[f32]) {
        let (sequence, position) = (place.0, place.1 as usize);
        assert!(position < self.plan.context, "position {position} outside of a cache of {}", self.plan.context);
        let heads = k.chunks_exact(self.plan.key_dim).zip(v.chunks_exact(self.plan.value_dim));
        for (head, (k, v)) in heads.enumerate() {
            let head = self.number(layer, sequence, head);
            let (put_key, put_value) = (self.keys.kernels.put_key, self.values.kernels.put_value);
            put_key(self.keys.unit_mut(head, position / PANEL), position % PANEL, k);
            put_value(self.values.unit_mut(head, position), v);
        }
    }

    /// A head.
    pub(crate) fn head(&self, layer: usize, sequence: u32, head: usize) -> Head<'_> {
        let head = self.number(layer, sequence, head);
        Head { keys: self.keys.head(head), values: self.values.head(head) }
    }
}
