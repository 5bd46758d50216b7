//! What recording a token costs the processor: threads of the driver, which play GPU here, are not counted.

use std::time::Duration;

use candor_gpu::{Gpu, Variant};
use candor_ops::{Attention, Heads, KvFormat, KvPlan, LayerCache, Ops, Pairing, Prims, Rope, Step};
use candor_quant::Format;
use candor_testing::backend::{Random, floats};

use crate::{options, sound};

const LAYERS: usize = 22;
const WIDTH: usize = 256;
const HEADS: Heads = Heads { heads: 4, kv_heads: 2, key_dim: 64, value_dim: 64, scale: 0.125 };

/// This thread's time on a processor; `None` where the system does not tell.
fn cpu_time() -> Option<Duration> {
    // Brings the sum up to date.
    std::thread::yield_now();
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(Duration::from_nanos(text.split_whitespace().next()?.parse().ok()?))
}

/// The time that each of some tokens takes to record and to hand over, and its dispatches.
fn tokens(gpu: &mut Gpu, count: usize) -> Option<(Vec<Duration>, u64)> {
    let mut random = Random(3);
    let mut weight = |rows| gpu.weight(random.matrix(Format::Q4K, rows, WIDTH)).expect("Q4_K runs");
    let layers: Vec<_> =
        (0..LAYERS).map(|_| [WIDTH, WIDTH / 2, WIDTH / 2, WIDTH, WIDTH, WIDTH, WIDTH].map(&mut weight)).collect();
    let table = weight(10);
    let norm = gpu.weight(floats(1, WIDTH, &[1.0; WIDTH])).expect("floats run");
    let rope = Rope { pairing: Pairing::Neox, frequencies: (0..32).map(f64::from).collect(), magnitude: 1.0 };
    let rope = gpu.rope_table(rope);
    let (keys, values) = (KvFormat::F16, KvFormat::F16);
    let (context, sequences) = (2048, 1);
    let plan = KvPlan {
        layers: vec![LayerCache::attention(2, 64, 64); LAYERS],
        context,
        step: context,
        sequences,
        pool: None,
        keys,
        values,
    };
    let mut kv = gpu.kv(&plan);
    let [mut x, mut h, mut q, mut att, mut gate, mut up] = [WIDTH; 6].map(|width| gpu.buffer(1, width));
    let [mut k, mut v] = [WIDTH / 2; 2].map(|width| gpu.buffer(1, width));
    let (mut times, mut dispatches) = (Vec::new(), 0);
    for number in 0..count {
        // Positions of one bucket, split and merged.
        let position = [1100 + number as u32];
        let step = Step { tokens: &[0], positions: &position, sequences: &[0], outputs: &[0], decoding: 1 };
        let (before, start) = (gpu.counters(), cpu_time()?);
        gpu.embed(&mut x, &table, &step);
        for (i, [wq, wk, wv, wo, wg, wu, wd]) in layers.iter().enumerate() {
            gpu.rms_norm(&mut h, &x, &norm, 1e-5);
            gpu.matmul3((&mut q, wq), (&mut k, wk), (&mut v, wv), &h);
            gpu.rope_write(&mut kv, i, [&mut q, &mut k, &mut v], (&rope, 64), &step);
            gpu.attend(&mut att, &q, &kv, i, Attention::causal(HEADS), &step);
            gpu.matmul_add(&mut x, &att, wo, &mut h);
            gpu.rms_norm(&mut h, &x, &norm, 1e-5);
            gpu.matmul2((&mut gate, wg), (&mut up, wu), &h);
            gpu.swiglu(&mut gate, &up);
            gpu.matmul_add(&mut x, &gate, wd, &mut h);
        }
        sound(gpu);
        times.push(cpu_time()? - start);
        let after = gpu.counters();
        dispatches = after.dispatches - before.dispatches;
        assert_eq!((after.submits - before.submits, after.passes - before.passes), (1, 1), "token {number}");
        if number > 0 {
            assert_eq!((after.buffers, after.bind_groups), (before.buffers, before.bind_groups), "token {number}");
        }
        // As one waits for a token.
        let (snapshot, mut read) = (gpu.snapshot(&k), Vec::new());
        gpu.download(&snapshot, &mut read);
    }
    Some((times, dispatches))
}

/// Tokens that are recorded: enough for a median where time is asked for.
const TOKENS: usize = if cfg!(debug_assertions) { 8 } else { 60 };

/// At most 1 ms for 22 layers. Only optimized builds without checks are held to it.
#[test]
fn a_token_of_22_layers_is_recorded_within_a_millisecond() {
    let Some(options) = options() else { return };
    for int8_dot in [false, true] {
        let variant = Some(Variant { int8_dot, ..Variant::default() });
        let mut gpu = Gpu::new(&options.clone().variant(variant)).expect("the adapter opens");
        let Some((mut times, dispatches)) = tokens(&mut gpu, TOKENS) else { return };
        times.remove(0);
        times.sort();
        let median = times[times.len() / 2];
        println!("{dispatches} dispatches, 8-bit inputs {int8_dot}: {median:?} of processor time per token");
        // An embedding; of each layer two norms, seven products, what is written, attention and what merges it, and a gate.
        assert_eq!(dispatches, 1 + 13 * LAYERS as u64);
        assert!(cfg!(debug_assertions) || median <= Duration::from_millis(1), "{median:?} for {dispatches} dispatches");
    }
}
