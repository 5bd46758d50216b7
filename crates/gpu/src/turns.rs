//! Rotary embeddings, and what is written to the cache right behind them.

use candor_ops::{Pairing, Rope, Step};

use crate::Gpu;
use crate::buffer::Buf;
use crate::cache::{self, Cache};
use crate::device::Storage;
use crate::kernel::Kernel;
use crate::record::Dispatch;

/// Rotary frequencies on the device.
#[derive(Debug)]
pub struct Turns {
    table: Storage,
    pairs: u32,
    pairing: Pairing,
    magnitude: f32,
}

impl Turns {
    /// Elements between a pair and the next, and between the two of a pair.
    fn steps(&self) -> [u32; 2] {
        match self.pairing {
            Pairing::Norm => [2, 1],
            Pairing::Neox => [1, self.pairs],
        }
    }
}

pub(crate) fn turns(gpu: &mut Gpu, rope: &Rope) -> Turns {
    let words: Vec<u64> = rope.frequencies.iter().map(|&f| fraction_of_a_turn(f)).collect();
    let table = gpu.storage((words.len() * 8) as u64);
    gpu.device.queue.write_buffer(&table.buffer, 0, bytemuck::cast_slice(&words));
    let (pairs, pairing) = (words.len() as u32, rope.pairing);
    Turns { table, pairs, pairing, magnitude: rope.magnitude as f32 }
}

pub(crate) fn rope(gpu: &mut Gpu, x: &Buf, rope: &Turns, head_dim: usize, step: &Step<'_>) {
    let heads = (x.width / head_dim) as u32;
    let [spread, gap] = rope.steps();
    let numbers = [rope.pairs, heads, head_dim as u32, x.stride as u32, spread, gap, rope.magnitude.to_bits()];
    let Gpu { device, recorder, places, .. } = gpu;
    let places = places.stage(device, recorder, step);
    let buffers = [&rope.table, places, &x.storage];
    let grid = [(heads * rope.pairs).div_ceil(64), x.rows as u32, 1];
    recorder.dispatch(device, &Dispatch { kernel: Kernel::Rope, buffers: &buffers, numbers: &numbers, grid });
}

/// Turns queries and keys and stores the keys with their values: rows that decode at once, others one after the other, since
/// they take long enough.
pub(crate) fn write(
    gpu: &mut Gpu,
    kv: &mut Cache,
    layer: usize,
    [q, k, v]: [&Buf; 3],
    (turns, head_dim): (&Turns, usize),
    step: &Step<'_>,
) {
    let key_dim = kv.layers[layer].sides[0].dim;
    if q.decoding < q.rows || key_dim != head_dim {
        rope(gpu, q, turns, head_dim, step);
        rope(gpu, k, turns, head_dim, step);
        return cache::write(gpu, kv, layer, [k, v], step);
    }
    if !cache::make_room(gpu, kv, layer, q.rows, step) {
        return;
    }
    let Gpu { device, recorder, places, .. } = gpu;
    let staged = places.stage(device, recorder, step);
    let layer = &kv.layers[layer];
    let [keys, values] = &layer.storage;
    let [spread, gap] = turns.steps();
    let q_heads = q.width / head_dim;
    let own = [q_heads as u32, q.stride as u32, turns.pairs, spread, gap, turns.magnitude.to_bits()];
    let mut numbers = [0; 17];
    numbers[..11].copy_from_slice(&layer.numbers([k, v]));
    numbers[11..].copy_from_slice(&own);
    let dispatch = Dispatch {
        kernel: Kernel::TurnAndWrite { keys: layer.sides[0].kind, values: layer.sides[1].kind, paged: layer.paged },
        buffers: &[staged, &k.storage, &v.storage, keys, values, &turns.table, &q.storage],
        numbers: &numbers,
        grid: [(q_heads + 2 * layer.plan.kv_heads) as u32, q.rows as u32, 1],
    };
    recorder.dispatch(device, &dispatch);
}

/// Radians as a fraction of a turn, in units of 2^-64.
fn fraction_of_a_turn(radians: f64) -> u64 {
    let turns = radians / std::f64::consts::TAU;
    ((turns - turns.floor()) * 18_446_744_073_709_551_616.0) as u64
}
