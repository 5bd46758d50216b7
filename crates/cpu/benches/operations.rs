//! Speed of operations as models have them: `cargo bench -p candor-cpu --bench operations -- [THREADS]`, by default as many as
//! there are cores.
//!
//! Microseconds per call, best and median of some calls, after some to warm up.

use std::time::Instant;

use candor_cpu::{Cpu, CpuOptions};
use candor_ops::{
    Attention, Decay, Gate, Heads, KvFormat, KvPlan, LayerCache, Mask, Prims, Recurrence, Router, Step, Unary,
};
use candor_quant::Format;
use candor_testing::backend::{Random, floats, upload};

/// Calls `op` with a row at each position from 0 on, `rows` at a time.
fn time(name: &str, rows: usize, calls: usize, mut op: impl FnMut(&Step<'_>)) {
    let (tokens, sequences) = (vec![0; rows], vec![0; rows]);
    let mut times: Vec<f64> = (0..calls)
        .map(|call| {
            let positions: Vec<u32> = (0..rows).map(|i| (call * rows + i) as u32).collect();
            let step =
                Step { tokens: &tokens, positions: &positions, sequences: &sequences, outputs: &[], decoding: 0 };
            let start = Instant::now();
            op(&step);
            start.elapsed().as_secs_f64() * 1e6
        })
        .skip(calls / 4)
        .collect();
    times.sort_by(f64::total_cmp);
    println!("{name:44} {rows:4} rows {:10.1} {:10.1}", times[0], times[times.len() / 2]);
}

fn main() {
    let threads = std::env::args().find_map(|argument| argument.parse().ok()).unwrap_or(0);
    let mut ops = Cpu::new(CpuOptions { threads, ..CpuOptions::default() });
    println!("{}, {} threads: best and median in microseconds", ops.kernels().name, ops.threads());
    for rows in [1, 64] {
        experts(&mut ops, rows);
        heads(&mut ops, rows);
        states(&mut ops, rows);
        functions(&mut ops, rows);
    }
    window(&mut ops);
}

/// 8 of 128 experts, 2048 to 768: a layer's gate as Qwen3-30B-A3B has it.
fn experts(ops: &mut Cpu, rows: usize) {
    let (experts, used, cols, outputs, mut random) = (128, 8, 2048, 768, Random(1));
    let router = Router { experts, used, gate: Gate::Softmax, groups: (1, 1), normalized: true, scale: 1.0 };
    let w = ops.weight(random.matrix(Format::Q4K, experts * outputs, cols)).expect("Q4_K runs");
    // Other rows choose other experts.
    let many: Vec<_> = (0..16).map(|_| upload(ops, experts, &random.floats(rows * experts))).collect();
    let x = upload(ops, cols, &random.floats(rows * cols));
    let (mut routes, mut out) = (ops.routes(rows, used), ops.buffer(rows * used, outputs));
    let mut next = 0;
    time("route, 8 of 128", rows, 100, |_| {
        next += 1;
        ops.route(&mut routes, &many[next % 16], None, router);
    });
    time("matmul_experts, 8 of 128, Q4_K 2048 x 768", rows, 50, |_| {
        next += 1;
        ops.route(&mut routes, &many[next % 16], None, router);
        ops.matmul_experts(&mut out, &x, &w, &routes);
    });
}

/// 16 heads of 512 to 128, as DeepSeek-V2-Lite's values have them.
fn heads(ops: &mut Cpu, rows: usize) {
    let mut random = Random(2);
    let w = ops.weight(random.matrix(Format::Q8_0, 16 * 128, 512)).expect("Q8_0 runs");
    let (x, mut out) = (upload(ops, 16 * 512, &random.floats(rows * 16 * 512)), ops.buffer(rows, 16 * 128));
    time("matmul_heads, 16 of Q8_0 512 x 128", rows, 100, |_| ops.matmul_heads(&mut out, &x, &w, 16));
}

fn states(ops: &mut Cpu, rows: usize) {
    let mut random = Random(3);
    let mut draw = |ops: &mut Cpu, width: usize| {
        let values: Vec<f32> = random.floats(rows * width).iter().map(|x| 0.5 + 0.1 * x).collect();
        upload(ops, width, &values)
    };
    let inner = 4096;
    let layer = LayerCache { states: [3 * inner, 128 * 64 * 64, 0], ..LayerCache::default() };
    let (keys, values) = (KvFormat::F32, KvFormat::F32);
    let plan = KvPlan { layers: vec![layer], context: 100_000, step: rows, sequences: 1, pool: None, keys, values };
    let mut kv = ops.kv(&plan);
    let (x, mut out) = (draw(ops, inner), ops.buffer(rows, inner));
    let taps = ops.weight(floats(inner, 4, &vec![0.1; inner * 4])).expect("floats run");
    time("conv, 4096 columns, 4 taps", rows, 100, |step| ops.conv(&mut out, &mut kv, (0, 0), &x, &taps, step));
    let rate = ops.weight(floats(inner, 16, &vec![-0.5; inner * 16])).expect("floats run");
    let key = draw(ops, 16);
    let (q, k, v, decay) = (&key, &key, &x, Decay::Rates { time: &x, rate: &rate });
    let (heads, key_heads, key_dim, value_dim) = (inner, 1, 16, 1);
    let mamba = Recurrence { heads, key_heads, key_dim, value_dim, q, k, v, decay, erase: None, bonus: None };
    time("recur, Mamba, 4096 heads, 16 x 1", rows, 60, |step| {
        ops.recur(&mut out, &mut kv, (0, 1), mamba, step);
    });
    let (key, fade) = (draw(ops, 128), draw(ops, 64));
    let (heads, key_heads, key_dim, value_dim) = (64, 1, 128, 64);
    let mamba2 =
        Recurrence { heads, key_heads, key_dim, value_dim, q: &key, k: &key, decay: Decay::Heads(&fade), ..mamba };
    time("recur, Mamba-2, 64 heads, 128 x 64", rows, 60, |step| {
        ops.recur(&mut out, &mut kv, (0, 1), mamba2, step);
    });
    let (key, a, b, fade) = (draw(ops, 16 * 128), draw(ops, 32 * 128), draw(ops, 32 * 128), draw(ops, 32));
    let (heads, key_heads, key_dim, value_dim) = (32, 16, 128, 128);
    let erase = Some((&a, &b));
    let delta = Recurrence {
        heads,
        key_heads,
        key_dim,
        value_dim,
        q: &key,
        k: &key,
        decay: Decay::Heads(&fade),
        erase,
        ..mamba
    };
    time("recur, gated delta, 32 heads, 128 x 128", rows, 60, |step| {
        ops.recur(&mut out, &mut kv, (0, 1), delta, step);
    });
}

fn functions(ops: &mut Cpu, rows: usize) {
    let width = 8192;
    for f in [Unary::Gelu, Unary::Sigmoid, Unary::Tanh, Unary::Softplus, Unary::ReluSquared] {
        let mut x = upload(ops, width, &Random(4).floats(rows * width));
        time(&format!("unary, {f:?}, 8192 columns"), rows, 100, |_| ops.unary(&mut x, f));
    }
}

/// A window of 512 at the end of 16384 positions.
fn window(ops: &mut Cpu) {
    let heads = Heads { heads: 8, kv_heads: 1, key_dim: 128, value_dim: 128, scale: 0.1 };
    let (context, keys, values) = (16_384, KvFormat::F16, KvFormat::F16);
    let plan = KvPlan {
        layers: vec![LayerCache::attention(1, 128, 128)],
        context,
        step: context,
        sequences: 1,
        pool: None,
        keys,
        values,
    };
    let mut kv = ops.kv(&plan);
    let row = upload(ops, 128, &[0.1; 128]);
    let (q, mut out) = (upload(ops, 1024, &[0.1; 1024]), ops.buffer(1, 1024));
    for position in 0..context as u32 {
        let step = Step { tokens: &[0], positions: &[position], sequences: &[0], outputs: &[], decoding: 0 };
        ops.kv_write(&mut kv, 0, &row, &row, &step);
    }
    let last = Step { tokens: &[0], positions: &[context as u32 - 1], sequences: &[0], outputs: &[], decoding: 0 };
    for mask in [Mask::Causal, Mask::Window(512)] {
        let attention = Attention { mask, ..Attention::causal(heads) };
        time(&format!("attend, position 16383, {mask:?}"), 1, 100, |_| {
            ops.attend(&mut out, &q, &kv, 0, attention, &last);
        });
    }
}
