//! The cache of keys, values and states: where they lie, and how they come there.

use std::ops::Range;
use std::sync::Arc;

use candor_ops::{ABSENT, Full, KvPlan, LayerCache, Moved, PAGE, Pages, Step};

use crate::Gpu;
use crate::asked::Asked;
use crate::buffer::Buf;
use crate::device::{Device, Storage};
use crate::kernel::{Kernel, KvKind};
use crate::record::Dispatch;

/// Keys and values of the positions seen so far, and states.
#[derive(Debug)]
pub struct Cache {
    pub(crate) device: Arc<Device>,
    pub(crate) plan: KvPlan,
    /// Where layers that are paged have the positions of each sequence. The others count alike.
    pub(crate) pages: Pages,
    pub(crate) layers: Vec<Layer>,
    /// The keys, values and states of a layer that are on their way to the host.
    pub(crate) saving: [Option<Asked>; 3],
}

/// Keys and values, `[head][place][words]` each, behind which a paged layer has the pages of all sequences.
#[derive(Debug)]
pub(crate) struct Layer {
    pub(crate) plan: LayerCache,
    /// Places of a sequence. Position `p` is at place `p % kept`, counted within the sequence's own run or its pages.
    pub(crate) kept: usize,
    /// Places of all sequences.
    pub(crate) places: usize,
    /// Whether positions lie in pages of the pool.
    pub(crate) paged: bool,
    pub(crate) storage: [Storage; 2],
    pub(crate) sides: [Side; 2],
    /// `[sequence][numbers]` each.
    pub(crate) states: [Storage; 3],
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Side {
    pub(crate) kind: KvKind,
    pub(crate) dim: usize,
    /// Words of a head's elements, filled up to whole `vec4`s.
    pub(crate) words: usize,
    /// Words from place to place, scales included: whole `vec4`s.
    pub(crate) stride: usize,
}

/// What a device must hear of pages that sequences were given.
#[derive(Default)]
pub(crate) struct Given {
    moved: Vec<Moved>,
    sequences: Vec<usize>,
}

/// Some bytes that go elsewhere in the same buffer.
pub(crate) struct Copy<'a> {
    pub(crate) storage: &'a Storage,
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) len: usize,
}

/// Whether a layer's positions lie in pages of the pool: not where a single sequence has room for all of them.
fn is_paged(plan: &KvPlan, layer: usize) -> bool {
    plan.is_pooled(layer) && (plan.sequences > 1 || plan.pages() * PAGE < plan.context)
}

pub(crate) fn cache(gpu: &mut Gpu, plan: &KvPlan) -> Cache {
    let pages = Pages::new(plan.sequences, plan.context, plan.pages());
    let layers = plan.layers.iter().enumerate().map(|(index, layer)| {
        let sides = [(plan.keys, layer.key_dim), (plan.values, layer.value_dim)].map(|(format, dim)| {
            let kind = KvKind::of(format);
            let words = dim.div_ceil(kind.per_word()).next_multiple_of(4);
            Side { kind, dim, words, stride: (words + kind.scales(dim)).next_multiple_of(4) }
        });
        let paged = is_paged(plan, index);
        let kept = if paged { plan.context.next_multiple_of(PAGE) } else { plan.kept(index) };
        let places = if paged { pages.count() * PAGE } else { plan.sequences * kept };
        let table = if paged { plan.sequences * kept / PAGE } else { 0 };
        let storage = sides.map(|side| gpu.storage(4 * (layer.kv_heads * places * side.stride + table) as u64));
        let states = layer.states.map(|len| gpu.storage((plan.sequences * len * 4) as u64));
        Layer { plan: *layer, kept, places, paged, storage, sides, states }
    });
    let layers = layers.collect();
    Cache { device: gpu.device.clone(), plan: plan.clone(), pages, layers, saving: Default::default() }
}

/// Stores rows of keys and of values.
pub(crate) fn write(gpu: &mut Gpu, kv: &mut Cache, layer: usize, rows: [&Buf; 2], step: &Step<'_>) {
    if !make_room(gpu, kv, layer, rows[0].rows, step) {
        return;
    }
    let Gpu { device, recorder, places, .. } = gpu;
    let staged = places.stage(device, recorder, step);
    let layer = &kv.layers[layer];
    let [k, v] = rows;
    let [keys, values] = &layer.storage;
    let pieces = layer.sides.iter().map(Side::pieces).max().unwrap_or(0);
    let dispatch = Dispatch {
        kernel: Kernel::KvWrite { keys: layer.sides[0].kind, values: layer.sides[1].kind, paged: layer.paged },
        buffers: &[staged, &k.storage, &v.storage, keys, values],
        numbers: &layer.numbers(rows),
        grid: [(layer.plan.kv_heads * pieces).div_ceil(64) as u32, k.rows as u32, 2],
    };
    recorder.dispatch(device, &dispatch);
}

/// Has a step's sequences own the pages that its rows are written to; `false` where there are too few, which is then known.
pub(crate) fn make_room(gpu: &mut Gpu, kv: &mut Cache, layer: usize, rows: usize, step: &Step<'_>) -> bool {
    if !kv.plan.is_pooled(layer) {
        return true;
    }
    let mut given = Given::default();
    for (&sequence, &position) in step.sequences.iter().zip(step.positions).take(rows) {
        let (sequence, position) = (sequence as usize, position as usize);
        if let Err(full) = kv.give(sequence, position..position + 1, &mut given) {
            gpu.refuse(full.to_string());
            return false;
        }
    }
    if !given.moved.is_empty() {
        // What was recorded before is of the pages as they were.
        gpu.recorder.submit(&gpu.device);
    }
    kv.settle(given).unwrap_or_else(|what| gpu.refuse(what));
    true
}

impl Cache {
    /// A state of a layer.
    pub(crate) fn state(&self, (layer, slot): (usize, usize)) -> &Storage {
        &self.layers[layer].states[slot]
    }

    /// Has a sequence own the pages of positions that it is about to write to. The device is still to hear of it.
    pub(crate) fn give(&mut self, sequence: usize, positions: Range<usize>, given: &mut Given) -> Result<(), Full> {
        let free = self.pages.free();
        given.moved.extend(self.pages.reserve(sequence, positions)?);
        if self.pages.free() < free {
            given.sequences.push(sequence);
        }
        Ok(())
    }

    /// Copies pages in all layers that have them, and writes where they are.
    pub(crate) fn settle(&self, given: Given) -> Result<(), String> {
        let paged = || self.layers.iter().filter(|layer| layer.paged);
        let page = |Moved { from, to }| paged().flat_map(move |layer| layer.copies([from * PAGE, to * PAGE], PAGE));
        self.copy(&given.moved.into_iter().flat_map(page).collect::<Vec<_>>())?;
        given.sequences.into_iter().for_each(|sequence| self.write_table(sequence));
        Ok(())
    }

    /// Writes which pages a sequence has behind the keys and values of the layers that have them: the first for one that it
    /// lacks, which is not looked at.
    pub(crate) fn write_table(&self, sequence: usize) {
        let pages = self.pages.of(sequence);
        let known: Vec<u32> = pages.iter().map(|&page| if page == ABSENT { 0 } else { page }).collect();
        let table: &[u8] = bytemuck::cast_slice(&known);
        for layer in self.layers.iter().filter(|layer| layer.paged) {
            for (side, storage) in layer.sides.iter().zip(&layer.storage) {
                let at = 4 * layer.plan.kv_heads * layer.places * side.stride + sequence * table.len();
                // A buffer that was refused has no room; that it was is said when the step is finished.
                if at + table.len() <= storage.buffer.size() as usize {
                    self.device.queue.write_buffer(&storage.buffer, at as u64, table);
                }
            }
        }
    }

    /// Copies within buffers, one after the other.
    pub(crate) fn copy(&self, copies: &[Copy<'_>]) -> Result<(), String> {
        let most = copies.iter().map(|copy| copy.len).max().unwrap_or(0);
        if most == 0 {
            return Ok(());
        }
        // No buffer may be copied to itself.
        let between = self.device.storage(most as u64)?;
        let mut encoder = self.device.device.create_command_encoder(&Default::default());
        for Copy { storage, from, to, len } in copies.iter().filter(|copy| copy.len > 0) {
            let (from, to, len) = (*from as u64, *to as u64, Some(*len as u64));
            encoder.copy_buffer_to_buffer(&storage.buffer, from, &between.buffer, 0, len);
            encoder.copy_buffer_to_buffer(&between.buffer, 0, &storage.buffer, to, len);
        }
        self.device.queue.submit([encoder.finish()]);
        Ok(())
    }
}

impl Side {
    /// Pieces of a head that an invocation writes at once: words, or blocks.
    fn pieces(&self) -> usize {
        if self.kind.block().is_some() { self.dim / 32 } else { self.stride }
    }
}

impl Layer {
    /// What shaders that write rows of keys and of values ask first.
    pub(crate) fn numbers(&self, [k, v]: [&Buf; 2]) -> [u32; 11] {
        let [keys, values] = &self.sides;
        [
            self.plan.kv_heads,
            self.kept,
            self.places,
            keys.dim,
            values.dim,
            keys.stride,
            values.stride,
            keys.pieces(),
            values.pieces(),
            k.stride,
            v.stride,
        ]
        .map(|number| number as u32)
    }

    /// Copies of `count` places of all heads, keys and values, from one place to another.
    pub(crate) fn copies(&self, [from, to]: [usize; 2], count: usize) -> impl Iterator<Item = Copy<'_>> {
        self.sides.iter().zip(&self.storage).flat_map(move |(side, storage)| {
            let row = side.stride * 4;
            (0..self.plan.kv_heads).map(move |head| {
                let [from, to] = [from, to].map(|place| (head * self.places + place) * row);
                Copy { storage, from, to, len: count * row }
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use candor_ops::KvFormat;

    use super::*;

    #[test]
    fn a_sequence_with_room_for_all_has_no_pages() {
        let whole = LayerCache::attention(1, 32, 32);
        let layers = vec![whole, LayerCache { window: Some(9), ..whole }, LayerCache::default()];
        let (keys, values) = (KvFormat::F16, KvFormat::F16);
        let plan =
            |sequences, pool| KvPlan { layers: layers.clone(), context: 300, step: 1, sequences, pool, keys, values };
        for (sequences, pool, paged) in
            [(1, None, false), (1, Some(257), false), (1, Some(256), true), (2, None, true), (2, Some(9), true)]
        {
            let plan = plan(sequences, pool);
            assert_eq!([0, 1, 2].map(|layer| is_paged(&plan, layer)), [paged, false, false], "{plan:?}");
        }
    }
}
