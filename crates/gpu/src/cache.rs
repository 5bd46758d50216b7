//! The cache of keys, values and states: where they lie, and how they come there.

use std::sync::Arc;

use candor_ops::{KvPlan, LayerCache, Moved, PAGE, Pages, Step};

use crate::Gpu;
use crate::buffer::Buf;
use crate::device::{Device, Storage};
use crate::kernel::{Kernel, KvKind};
use crate::record::Dispatch;

/// Keys and values of the positions seen so far, and states.
#[derive(Debug)]
pub struct Cache {
    pub(crate) device: Arc<Device>,
    pub(crate) plan: KvPlan,
    /// Where layers that are paged have the positions of each sequence.
    pub(crate) pages: Pages,
    pub(crate) layers: Vec<Layer>,
}

/// Keys and values, `[head][place][words]` each, behind which a paged layer has the pages of all sequences.
#[derive(Debug)]
pub(crate) struct Layer {
    pub(crate) plan: LayerCache,
    /// Places of a sequence. Position `p` is at place `p % kept`, counted within the sequence's own run or its pages.
    pub(crate) kept: usize,
    /// Places of all sequences.
    pub(crate) places: usize,
    /// Whether sequences may share pages: not where there is only one, nor where the last positions are kept in a ring.
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

/// Some bytes that go elsewhere in the same buffer.
pub(crate) struct Copy<'a> {
    pub(crate) storage: &'a Storage,
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) len: usize,
}

pub(crate) fn cache(gpu: &mut Gpu, plan: &KvPlan) -> Cache {
    let pages = Pages::new(plan.sequences, plan.context);
    let layers = plan.layers.iter().enumerate().map(|(index, layer)| {
        let sides = [(plan.keys, layer.key_dim), (plan.values, layer.value_dim)].map(|(format, dim)| {
            let kind = KvKind::of(format);
            let words = dim.div_ceil(kind.per_word()).next_multiple_of(4);
            Side { kind, dim, words, stride: (words + kind.scales(dim)).next_multiple_of(4) }
        });
        let paged = plan.sequences > 1 && layer.kv_heads > 0 && plan.kept(index) == plan.context;
        let kept = if paged { plan.context.next_multiple_of(PAGE) } else { plan.kept(index) };
        let places = plan.sequences * kept;
        let table = if paged { pages.count() } else { 0 };
        let storage = sides.map(|side| gpu.storage(4 * (layer.kv_heads * places * side.stride + table) as u64));
        let states = layer.states.map(|len| gpu.storage((plan.sequences * len * 4) as u64));
        Layer { plan: *layer, kept, places, paged, storage, sides, states }
    });
    let layers = layers.collect();
    let cache = Cache { device: gpu.device.clone(), plan: plan.clone(), pages, layers };
    cache.tell_pages();
    cache
}

pub(crate) fn write(gpu: &mut Gpu, kv: &mut Cache, layer: usize, rows: [&Buf; 2], step: &Step<'_>) {
    if kv.layers[layer].paged {
        let places = step.sequences.iter().zip(step.positions).take(rows[0].rows);
        let moved = kv.moved(places.map(|(&sequence, &position)| (sequence as usize, position as usize)));
        if !moved.is_empty() {
            // What was recorded before is of the pages as they were.
            gpu.recorder.submit(&gpu.device);
            kv.move_pages(moved).unwrap_or_else(|what| gpu.refuse(what));
        }
    }
    let Gpu { device, recorder, places, .. } = gpu;
    let staged = places.stage(device, recorder, step);
    let Layer { plan, kept, places, paged, storage, sides, .. } = &kv.layers[layer];
    for ((x, side), storage) in rows.into_iter().zip(sides).zip(storage) {
        let (heads, stride) = (plan.kv_heads as u32, side.stride as u32);
        let pieces = match side.kind {
            KvKind::F32 | KvKind::F16 => stride,
            KvKind::Q8_0 | KvKind::Q4_0 => (side.dim / 32) as u32,
        };
        let dispatch = Dispatch {
            kernel: Kernel::KvWrite { kind: side.kind, paged: *paged },
            buffers: &[&x.storage, staged, storage],
            numbers: &[side.dim as u32, heads, stride, *kept as u32, x.stride as u32, *places as u32],
            grid: [(heads * pieces).div_ceil(64), x.rows as u32, 1],
        };
        recorder.dispatch(device, &dispatch);
    }
}

impl Cache {
    /// A state of a layer.
    pub(crate) fn state(&self, (layer, slot): (usize, usize)) -> &Storage {
        &self.layers[layer].states[slot]
    }

    /// Has sequences own the pages of positions that are about to be written to: what has to be copied for that.
    pub(crate) fn moved(&mut self, places: impl Iterator<Item = (usize, usize)>) -> Vec<Moved> {
        places.filter_map(|(sequence, position)| self.pages.own(sequence, position)).collect()
    }

    /// Copies pages in all layers that have them.
    pub(crate) fn move_pages(&self, moved: Vec<Moved>) -> Result<(), String> {
        let paged = || self.layers.iter().filter(|layer| layer.paged);
        let page = |Moved { from, to }| paged().flat_map(move |layer| layer.copies([from * PAGE, to * PAGE], PAGE));
        self.copy(&moved.into_iter().flat_map(page).collect::<Vec<_>>())?;
        self.tell_pages();
        Ok(())
    }

    /// Writes the pages of all sequences behind the keys and values of the layers that have them.
    pub(crate) fn tell_pages(&self) {
        for layer in self.layers.iter().filter(|layer| layer.paged) {
            for (side, storage) in layer.sides.iter().zip(&layer.storage) {
                let end = 4 * layer.plan.kv_heads * layer.places * side.stride;
                let table = bytemuck::cast_slice(self.pages.all());
                // A buffer that was refused has no room; that it was is told when the step is finished.
                if end + table.len() <= storage.buffer.size() as usize {
                    self.device.queue.write_buffer(&storage.buffer, end as u64, table);
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

impl Layer {
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
