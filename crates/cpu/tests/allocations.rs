//! Operations take no memory from the heap once they have run: every allocation of the thread that runs them is counted. Not
//! those of the process: the thread that started the test allocates whenever it gets to it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use candor_cpu::{Buf, Cpu, CpuOptions};
use candor_ops::{
    Attention, Decay, Gate, Heads, KvFormat, KvPlan, LayerCache, Mask, Norm, NormKind, Ops, Prims, Recurrence,
    Relative, Router, Step, Unary,
};
use candor_quant::Format;
use candor_testing::backend::{Random, floats};

struct Counting;

thread_local! {
    /// Allocations of this thread.
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call is handed to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const WIDTH: usize = 256;
const CONTEXT: usize = 600;

/// A row that decodes, as wide as its values.
fn row(ops: &mut Cpu, values: &[f32]) -> Buf {
    let mut x = ops.buffer(1, values.len());
    ops.upload(&mut x, values, &Step { tokens: &[0], decoding: 1, ..Step::default() });
    x
}

/// Allocations of each of the calls for positions 0, 1, ... after some to warm up.
fn late(mut op: impl FnMut(&Step<'_>)) -> Vec<u32> {
    let mut late = Vec::with_capacity(CONTEXT);
    for position in 0..CONTEXT as u32 {
        let before = ALLOCATIONS.get();
        op(&Step { tokens: &[0], positions: &[position], sequences: &[0], outputs: &[0], decoding: 1 });
        if position > 16 && ALLOCATIONS.get() != before {
            late.push(position);
        }
    }
    assert_ne!(ALLOCATIONS.get(), 0, "nothing is counted");
    late
}

#[test]
fn a_token_allocates_nothing() {
    let mut ops = Cpu::new(CpuOptions { threads: 1, ..CpuOptions::default() });
    let mut random = Random(1);
    for format in [Format::Q4K, Format::Bf16, Format::Iq2Xs] {
        let (experts, used) = (32, 4);
        let router = Router { experts, used, gate: Gate::Sigmoid, groups: (4, 2), normalized: true, scale: 1.0 };
        let logits = row(&mut ops, &random.floats(experts));
        let x = row(&mut ops, &random.floats(WIDTH));
        let [a, b] =
            [(); 2].map(|()| ops.weight(random.matrix(format, experts * 40, WIDTH)).expect("every format runs"));
        let bias = ops.weight(floats(experts, 40, &random.floats(experts * 40))).expect("floats run");
        let mut routes = ops.routes(1, used);
        let [mut gate, mut up] = [(); 2].map(|()| ops.buffer(used, 40));
        let mut sum = ops.buffer(1, 40);
        let found = late(|_| {
            ops.route(&mut routes, &logits, None, router);
            ops.matmul2_experts((&mut gate, &a), (&mut up, &b), &x, &routes);
            ops.add_bias_experts(&mut gate, &bias, &routes);
            ops.unary(&mut gate, Unary::Gelu);
            ops.scale_experts(&mut gate, &routes);
            ops.sum_experts(&mut sum, &gate, &routes);
        });
        assert!(found.is_empty(), "experts of {format}: {found:?}");
        let (x, mut out) = (row(&mut ops, &random.floats(4 * WIDTH)), ops.buffer(1, 320));
        let found = late(|_| ops.matmul_heads(&mut out, &x, &a, 4));
        assert!(found.is_empty(), "heads of {format}: {found:?}");
    }
    let layer = LayerCache { states: [3 * WIDTH, WIDTH * 16, 8 * 32 * 32], ..LayerCache::attention(2, 32, 32) };
    let (keys, values) = (KvFormat::F16, KvFormat::Q8_0);
    let plan = KvPlan { layers: vec![layer], context: CONTEXT, step: 1, sequences: 1, pool: None, keys, values };
    let mut kv = ops.kv(&plan);
    let [mut x, mut out] = [(); 2].map(|()| row(&mut ops, &vec![0.1; WIDTH]));
    let taps = ops.weight(floats(WIDTH, 4, &random.floats(WIDTH * 4))).expect("floats run");
    let rate = ops.weight(floats(WIDTH, 16, &vec![-0.1; WIDTH * 16])).expect("floats run");
    let key = row(&mut ops, &random.floats(16));
    let found = late(|step| {
        ops.norm(&mut x, Norm { kind: NormKind::Layer, run: 32, eps: 1e-5 }, None, None);
        ops.conv(&mut out, &mut kv, (0, 0), &x, &taps, step);
        let (q, k, decay) = (&key, &key, Decay::Rates { time: &x, rate: &rate });
        let (heads, key_heads, key_dim, value_dim) = (WIDTH, 1, 16, 1);
        let mamba = Recurrence { heads, key_heads, key_dim, value_dim, q, k, v: &x, decay, erase: None, bonus: None };
        ops.recur(&mut out, &mut kv, (0, 1), mamba, step);
        let (heads, key_heads, key_dim, value_dim) = (8, 8, 32, 32);
        let (q, k, v, decay) = (&x, &x, &x, Decay::Keys(&x));
        let delta =
            Recurrence { heads, key_heads, key_dim, value_dim, q, k, v, decay, erase: Some((&x, &x)), bonus: None };
        ops.recur(&mut out, &mut kv, (0, 2), delta, step);
    });
    assert!(found.is_empty(), "states: {found:?}");
    let kv_row = row(&mut ops, &random.floats(64));
    let table = ops.weight(floats(32, 8, &random.floats(256))).expect("floats run");
    let sinks = ops.weight(floats(1, 8, &random.floats(8))).expect("floats run");
    let attention = Attention {
        heads: Heads { heads: 8, kv_heads: 2, key_dim: 32, value_dim: 32, scale: 0.2 },
        mask: Mask::Window(300),
        soft_cap: Some(20.0),
        alibi: Some(8.0),
        sinks: Some(&sinks),
        relative: Some(Relative { table: &table, buckets: 32, most: 128 }),
    };
    let found = late(|step| {
        ops.kv_write(&mut kv, 0, &kv_row, &kv_row, step);
        ops.attend(&mut out, &x, &kv, 0, attention, step);
    });
    // A block is met for the first time.
    assert!(found.iter().all(|position| position % 256 == 0), "attention: {found:?}");
}
