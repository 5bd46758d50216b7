//! The key-value cache.

mod state;
mod stored;

use std::ops::Range;

use candor_kernels::{AttentionKernels, BLOCK, BlockKernels, Kernels, PANEL};
use candor_ops::{ABSENT, Full, KvFormat, KvPlan, LayerCache, Mask, Moved, PAGE, Pages};

use crate::memory::{self, Zeroed};

pub(crate) use state::Order;
use state::State;

/// What each layer keeps of each sequence.
///
/// Memory of positions that were never written is not touched, so on common systems it takes no room.
pub struct Kv {
    pub(crate) plan: KvPlan,
    /// Where layers that keep all positions have those of each sequence.
    pages: Pages,
    layers: Vec<Layer>,
}

/// Keys, `[kv_head][page]` panels of positions, and values, `[kv_head][page]` rows, as the instruction set's attention
/// wants them; and states, `[sequence][numbers]`.
struct Layer {
    plan: LayerCache,
    /// Positions that there is room for: position `p` is at place `p % kept`.
    kept: usize,
    /// Where those of each sequence are, if the layer does not keep all: a ring is never shared.
    ring: Option<Pages>,
    keys: Store,
    values: Store,
    states: [State; 3],
}

/// Keys or values of all heads.
struct Store {
    kernels: AttentionKernels,
    /// Bytes of a panel of keys, or of a value's row.
    unit: usize,
    /// Panels or rows of a page.
    units: usize,
    /// Pages of a head.
    pages: usize,
    bytes: Zeroed,
}

/// Keys and values of one head of a sequence.
#[derive(Clone, Copy)]
pub(crate) struct Head<'a> {
    pub(crate) keys: Units<'a>,
    pub(crate) values: Units<'a>,
    /// Positions that there is room for.
    kept: usize,
    /// Where they are, if they were written.
    pages: &'a [u32],
}

/// What packs the keys and the values of a layer.
#[derive(Clone, Copy)]
pub(crate) struct Tiled {
    pub(crate) keys: BlockKernels,
    pub(crate) values: BlockKernels,
}

impl<'a> Head<'a> {
    /// The page of a position, and its place there.
    fn place(&self, position: usize) -> (usize, usize) {
        let place = position % self.kept;
        let page = self.pages[place / PAGE];
        assert_ne!(page, ABSENT, "position {position} is looked at, but was not written");
        (page as usize, place % PAGE)
    }

    /// `count` panels of keys from `position` on, the first of a panel. Panels of a block lie together.
    pub(crate) fn keys(&self, position: usize, count: usize) -> &'a [u8] {
        let (page, place) = self.place(position);
        self.keys.range(page, place / PANEL, count)
    }

    /// The values of `count` positions of a block from `position` on.
    pub(crate) fn values(&self, position: usize, count: usize) -> &'a [u8] {
        let (page, place) = self.place(position);
        self.values.range(page, place, count)
    }
}

/// Panels of a head's keys, or rows of its values.
#[derive(Clone, Copy)]
pub(crate) struct Units<'a> {
    pub(crate) kernels: &'a AttentionKernels,
    unit: usize,
    units: usize,
    bytes: &'a [u8],
}

impl<'a> Units<'a> {
    /// The bytes of `count` units of a page from `first` on.
    fn range(&self, page: usize, first: usize, count: usize) -> &'a [u8] {
        &self.bytes[(page * self.units + first) * self.unit..][..count * self.unit]
    }
}

impl Store {
    /// For `heads` heads of as many pages.
    fn new(
        kernels: AttentionKernels,
        (unit, units): (Option<usize>, usize),
        (heads, pages): (usize, usize),
        memory: memory::Pages,
    ) -> Store {
        // A layer that does not attend has no heads, of a width that no format need fit.
        let unit = if heads == 0 { 0 } else { unit.expect("head dimensions are whole blocks: the plan was checked") };
        Store { kernels, unit, units, pages, bytes: Zeroed::new(heads * pages * units * unit, memory) }
    }

    fn head(&self, head: usize) -> Units<'_> {
        let bytes = self.pages * self.units * self.unit;
        let bytes = &self.bytes.get()[head * bytes..][..bytes];
        Units { kernels: &self.kernels, unit: self.unit, units: self.units, bytes }
    }

    fn unit_mut(&mut self, head: usize, (page, unit): (usize, usize)) -> &mut [u8] {
        let unit = (head * self.pages + page) * self.units + unit;
        &mut self.bytes.get_mut()[unit * self.unit..][..self.unit]
    }

    fn copy_page(&mut self, Moved { from, to }: Moved) {
        let page = self.units * self.unit;
        if page == 0 {
            return;
        }
        let bytes = self.bytes.get_mut();
        for head in bytes.chunks_exact_mut(self.pages * page) {
            head.copy_within(from * page..(from + 1) * page, to * page);
        }
    }
}

impl Kv {
    pub(crate) fn new(plan: &KvPlan, kernels: &Kernels, memory: memory::Pages) -> Kv {
        let attention =
            |format: KvFormat| (kernels.attention)(format.format()).expect("every table has the formats of the cache");
        const { assert!(PAGE.is_multiple_of(BLOCK) && BLOCK.is_multiple_of(PANEL), "blocks lie in one piece") };
        let pages = Pages::new(plan.sequences, plan.context, plan.pages());
        let layers = plan.layers.iter().enumerate().map(|(index, layer)| {
            let kept = plan.kept(index);
            let ring = (kept < plan.context).then(|| Pages::apart(plan.sequences, kept));
            let room = (layer.kv_heads, ring.as_ref().unwrap_or(&pages).count());
            let (keys, values) = (attention(plan.keys), attention(plan.values));
            Layer {
                plan: *layer,
                kept,
                keys: Store::new(keys, (keys.panel_bytes(layer.key_dim), PAGE / PANEL), room, memory),
                values: Store::new(values, (values.row_bytes(layer.value_dim), PAGE), room, memory),
                ring,
                states: layer.states.map(|len| State::new(len, plan.sequences)),
            }
        });
        Kv { plan: plan.clone(), layers: layers.collect(), pages }
    }

    /// Has a sequence own the pages of positions in the layers that take them from the pool, before those are written to.
    fn own(&mut self, sequence: usize, positions: Range<usize>) -> Result<(), Full> {
        for moved in self.pages.reserve(sequence, positions)? {
            for layer in self.layers.iter_mut().filter(|layer| layer.ring.is_none()) {
                layer.keys.copy_page(moved);
                layer.values.copy_page(moved);
            }
        }
        Ok(())
    }

    /// The pages of a layer's sequences.
    fn pages_of(&self, layer: usize) -> &Pages {
        self.layers[layer].ring.as_ref().unwrap_or(&self.pages)
    }

    /// Stores one position's keys, `[kv_heads * key_dim]`, and values, `[kv_heads * value_dim]`.
    pub(crate) fn write(&mut self, layer: usize, (sequence, position): (u32, u32), k: &[f32], v: &[f32]) {
        let (sequence, position) = (sequence as usize, position as usize);
        assert!(position < self.plan.context, "position {position} outside of a cache of {}", self.plan.context);
        if self.layers[layer].ring.is_none() {
            self.own(sequence, position..position + 1).expect("room is reserved before positions are written");
        }
        let place = position % self.layers[layer].kept;
        let page = self.pages_of(layer).page(sequence, place);
        let Layer { plan: LayerCache { key_dim, value_dim, .. }, keys, values, .. } = &mut self.layers[layer];
        for (head, (k, v)) in k.chunks_exact(*key_dim).zip(v.chunks_exact(*value_dim)).enumerate() {
            (keys.kernels.put_key)(keys.unit_mut(head, (page, place % PAGE / PANEL)), place % PANEL, k);
            (values.kernels.put_value)(values.unit_mut(head, (page, place % PAGE)), v);
        }
    }

    /// Whether rows of a step may look so far back that an older position is kept for each of them.
    pub(crate) fn holds(&self, layer: usize, mask: Mask, step: usize) -> bool {
        let Layer { kept, plan, .. } = &self.layers[layer];
        let within = |window: usize| step <= self.plan.step && mask.reach().is_some_and(|reach| reach < window);
        *kept == self.plan.context || plan.window.is_some_and(within)
    }

    /// Kernels for many queries, if there are some for the formats of keys and values.
    pub(crate) fn tiled(&self, layer: usize) -> Option<Tiled> {
        let Layer { keys, values, .. } = &self.layers[layer];
        Some(Tiled { keys: keys.kernels.block?, values: values.kernels.block? })
    }

    /// A head of a sequence.
    pub(crate) fn head(&self, layer: usize, sequence: u32, head: usize) -> Head<'_> {
        let pages = self.pages_of(layer).of(sequence as usize);
        let Layer { keys, values, kept, .. } = &self.layers[layer];
        Head { keys: keys.head(head), values: values.head(head), kept: *kept, pages }
    }

    /// States of a layer in that order, one after the other for each sequence, and the numbers of one.
    pub(crate) fn states(&mut self, (layer, slot): (usize, usize), order: Order) -> (&mut [f32], usize) {
        let state = &mut self.layers[layer].states[slot];
        state.reorder(order);
        (&mut state.numbers, state.len)
    }
}
