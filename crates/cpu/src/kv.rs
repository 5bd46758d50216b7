//! The key-value cache.

mod state;
mod stored;

use candor_kernels::{AttentionKernels, Kernels, PANEL};
use candor_ops::{KvFormat, KvPlan, LayerCache, Mask, RING};

use crate::attention::BLOCK;
use crate::memory::{Pages, Zeroed};

pub(crate) use state::Order;
use state::State;

/// What each layer keeps of each sequence.
///
/// Memory of positions that were never written is not touched, so on common systems it takes no room.
pub struct Kv {
    pub(crate) plan: KvPlan,
    layers: Vec<Layer>,
}

/// Keys, `[sequence][kv_head]` panels of positions, and values, `[sequence][kv_head][position]` rows, as the instruction
/// set's attention wants them; and states, `[sequence][numbers]`.
struct Layer {
    plan: LayerCache,
    /// Positions that there is room for: position `p` is at place `p % kept`.
    kept: usize,
    keys: Store,
    values: Store,
    states: [State; 3],
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
    /// Positions that there is room for.
    kept: usize,
}

impl<'a> Head<'a> {
    /// `count` panels of keys from `position` on, the first of a panel. Panels of a block lie together.
    pub(crate) fn keys(&self, position: usize, count: usize) -> &'a [u8] {
        self.keys.range(position % self.kept / PANEL, count)
    }

    /// The values of `count` positions of a block from `position` on.
    pub(crate) fn values(&self, position: usize, count: usize) -> &'a [u8] {
        self.values.range(position % self.kept, count)
    }
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
    fn range(&self, first: usize, count: usize) -> &'a [u8] {
        &self.bytes[first * self.unit..(first + count) * self.unit]
    }
}

impl Store {
    fn new(kernels: AttentionKernels, unit: Option<usize>, units: usize, heads: usize, pages: Pages) -> Store {
        // A layer that does not attend has no heads, of a width that no format need fit.
        let unit = if heads == 0 { 0 } else { unit.expect("head dimensions are whole blocks: the plan was checked") };
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
        const { assert!(RING.is_multiple_of(BLOCK) && BLOCK.is_multiple_of(PANEL), "blocks lie in one piece") };
        let layers = plan.layers.iter().enumerate().map(|(index, layer)| {
            let (heads, kept) = (plan.sequences * layer.kv_heads, plan.kept(index));
            let (keys, values) = (attention(plan.keys), attention(plan.values));
            Layer {
                plan: *layer,
                kept,
                keys: Store::new(keys, keys.panel_bytes(layer.key_dim), kept.div_ceil(PANEL), heads, pages),
                values: Store::new(values, values.row_bytes(layer.value_dim), kept, heads, pages),
                states: layer.states.map(|len| State::new(len, plan.sequences)),
            }
        });
        Kv { plan: plan.clone(), layers: layers.collect() }
    }

    /// The number of a head among those of a layer's sequences.
    fn number(&self, layer: usize, sequence: u32, head: usize) -> usize {
        let (heads, sequence) = (self.layers[layer].plan.kv_heads, sequence as usize);
        assert!(sequence < self.plan.sequences && head < heads, "outside of the cache");
        sequence * heads + head
    }

    /// Stores one position's keys, `[kv_heads * key_dim]`, and values, `[kv_heads * value_dim]`.
    pub(crate) fn write(&mut self, layer: usize, place: (u32, u32), k: &[f32], v: &[f32]) {
        let (sequence, position) = (place.0, place.1 as usize);
        assert!(position < self.plan.context, "position {position} outside of a cache of {}", self.plan.context);
        let Layer { kept, plan: LayerCache { key_dim, value_dim, .. }, .. } = self.layers[layer];
        let position = position % kept;
        for (head, (k, v)) in k.chunks_exact(key_dim).zip(v.chunks_exact(value_dim)).enumerate() {
            let head = self.number(layer, sequence, head);
            let Layer { keys, values, .. } = &mut self.layers[layer];
            (keys.kernels.put_key)(keys.unit_mut(head, position / PANEL), position % PANEL, k);
            (values.kernels.put_value)(values.unit_mut(head, position), v);
        }
    }

    /// Whether rows of a step may look so far back that an older position is kept for each of them.
    pub(crate) fn holds(&self, layer: usize, mask: Mask, step: usize) -> bool {
        let Layer { kept, plan, .. } = &self.layers[layer];
        let within = |window: usize| step <= self.plan.step && mask.reach().is_some_and(|reach| reach < window);
        *kept == self.plan.context || plan.window.is_some_and(within)
    }

    /// A head.
    pub(crate) fn head(&self, layer: usize, sequence: u32, head: usize) -> Head<'_> {
        let head = self.number(layer, sequence, head);
        let Layer { keys, values, kept, .. } = &self.layers[layer];
        Head { keys: keys.head(head), values: values.head(head), kept: *kept }
    }

    /// States of a layer in that order, one after the other for each sequence, and the numbers of one.
    pub(crate) fn states(&mut self, (layer, slot): (usize, usize), order: Order) -> (&mut [f32], usize) {
        let state = &mut self.layers[layer].states[slot];
        state.reorder(order);
        (&mut state.numbers, state.len)
    }
}
