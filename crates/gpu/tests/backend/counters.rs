//! What a step costs: one submit, one pass, and nothing made again once it has been seen.

use candor_gpu::{Counters, Gpu, GpuOptions, Variant};
use candor_ops::{Attention, Heads, KvFormat, KvPlan, LayerCache, Ops, Pairing, Prims, Rope, Step};
use candor_quant::Format;
use candor_testing::backend::{Random, floats};

use crate::{backends, differs, options, sound};

const WIDTH: usize = 256;
const HEADS: Heads = Heads { heads: 4, kv_heads: 2, key_dim: 64, value_dim: 64, scale: 0.125 };

/// A layer, about: what its steps cost, and the output of the last.
fn steps(gpu: &mut Gpu, (rows, decoding): (usize, usize), count: usize) -> (Vec<Counters>, Vec<f32>) {
    let mut random = Random(9);
    let mut weight = |rows, cols| gpu.weight(random.matrix(Format::Q4K, rows, cols)).expect("Q4_K runs");
    let (table, square, half) = (weight(50, WIDTH), weight(WIDTH, WIDTH), weight(WIDTH / 2, WIDTH));
    let norm = gpu.weight(floats(1, WIDTH, &[1.0; WIDTH])).expect("floats run");
    let frequencies = (0..32).map(|i| f64::from(i) / 32.0).collect();
    let rope = gpu.rope_table(Rope { pairing: Pairing::Neox, frequencies, magnitude: 1.0 });
    let (keys, values) = (KvFormat::F16, KvFormat::F16);
    let (context, sequences) = (rows * count, 1);
    let plan = KvPlan {
        layers: vec![LayerCache::attention(2, 64, 64); 1],
        context,
        step: context,
        sequences,
        pool: None,
        keys,
        values,
    };
    let mut kv = gpu.kv(&plan);
    let mut buffer = |width| gpu.buffer(rows, width);
    let (mut x, mut h, mut q, mut att) = (buffer(WIDTH), buffer(WIDTH), buffer(WIDTH), buffer(WIDTH));
    let (mut k, mut v, mut logits) = (buffer(WIDTH / 2), buffer(WIDTH / 2), buffer(50));
    let mut read = Vec::new();
    let mut counters = vec![gpu.counters()];
    for number in 0..count {
        let tokens: Vec<u32> = (0..rows as u32).map(|t| (t + number as u32) % 50).collect();
        let positions: Vec<u32> = (0..rows as u32).map(|t| t + (number * rows) as u32).collect();
        let sequences = vec![0; rows];
        let step = Step {
            tokens: &tokens,
            positions: &positions,
            sequences: &sequences,
            outputs: &[rows as u32 - 1],
            decoding,
        };
        gpu.embed(&mut x, &table, &step);
        gpu.rms_norm(&mut h, &x, &norm, 1e-5);
        gpu.matmul3((&mut q, &square), (&mut k, &half), (&mut v, &half), &h);
        gpu.rope(&mut q, &rope, 64, &step);
        gpu.rope(&mut k, &rope, 64, &step);
        gpu.kv_write(&mut kv, 0, &k, &v, &step);
        gpu.attend(&mut att, &q, &kv, 0, Attention::causal(HEADS), &step);
        gpu.matmul_add(&mut x, &att, &square, &mut h);
        gpu.rms_norm(&mut h, &x, &norm, 1e-5);
        gpu.matmul_rows(&mut logits, &h, &table, &step);
        let snapshot = gpu.snapshot(&logits);
        gpu.download(&snapshot, &mut read);
        assert_eq!(read.len(), 50);
        sound(gpu);
        counters.push(gpu.counters());
    }
    (counters, read)
}

#[test]
fn a_step_is_one_submit_of_one_pass_that_makes_nothing_anew() {
    // What is recorded does not depend on how shaders add up, nor on halves.
    let recorded = |gpu: &Gpu| differs(gpu, true) && differs(gpu, false);
    for (name, gpu) in backends().into_iter().filter(|(_, gpu)| recorded(gpu)) {
        for (rows, decoding) in [(1, 1), (3, 3), (3, 0), (20, 0), (20, 20), (20, 2)] {
            // Positions within one bucket: what grows with the logarithm of the context is not counted here.
            let (counters, _) = steps(&mut gpu.clone(), (rows, decoding), 3);
            for (number, pair) in counters.windows(2).enumerate() {
                let [before, after] = [pair[0], pair[1]];
                let case = format!("{name}, {rows} rows, {decoding} that decode, step {number}: {before:?} {after:?}");
                assert_eq!(after.submits - before.submits, 1, "{case}");
                assert_eq!(after.passes - before.passes, 1, "{case}");
                assert_eq!(after.bytes_read - before.bytes_read, 200, "{case}");
                // Three inputs are rounded, or made halves: of the projections, of the one that is added, of the logits.
                let Variant { int8_dot, cooperative, .. } = gpu.variant();
                let most = 16 + 3 * u64::from(int8_dot) + 3 * u64::from(cooperative.is_some());
                // Rows that decode have a product for each eight and one for the rest, and rows of prompts another.
                let most = most
                    + 5 * usize::from(rows > 8 && decoding > 0) as u64
                    + u64::from(rows > decoding && decoding > 0);
                assert!(after.dispatches - before.dispatches <= most, "{case}");
                if number > 0 {
                    assert_eq!((after.buffers, after.bind_groups), (before.buffers, before.bind_groups), "{case}");
                }
            }
        }
    }
}

#[test]
fn much_work_is_handed_over_in_parts_and_computes_the_same() {
    let Some(options) = options() else { return };
    let open = |work| Gpu::new(&options.clone().work(work)).expect("the adapter opens");
    let (mut whole, mut parts) = (open(GpuOptions::default().work), open(1 << 20));
    for (rows, decoding, submits) in [(1, 1, 1), (8, 8, 1), (8, 0, 1), (20, 0, 4), (20, 20, 4), (20, 7, 4)] {
        let [(_, expected), (counters, got)] = [&mut whole, &mut parts].map(|gpu| steps(gpu, (rows, decoding), 2));
        assert_eq!(counters[2].submits - counters[1].submits, submits, "{rows} rows");
        let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&got), bits(&expected), "{rows} rows");
    }
}

/// A device that computes while the rest is recorded.
#[test]
fn a_step_is_handed_over_ahead_and_computes_the_same() {
    let Some(options) = options() else { return };
    let open = |ahead| Gpu::new(&options.clone().ahead(ahead)).expect("the adapter opens");
    let (mut whole, mut ahead) = (open(u32::MAX), open(5));
    for (rows, decoding) in [(1, 1), (20, 0), (20, 7)] {
        let [(_, expected), (counters, got)] = [&mut whole, &mut ahead].map(|gpu| steps(gpu, (rows, decoding), 3));
        let [before, after] = [counters[2], counters[3]];
        let (dispatches, submits) = (after.dispatches - before.dispatches, after.submits - before.submits);
        assert_eq!(submits, dispatches / 5 + 1, "{rows} rows, {dispatches} dispatches");
        assert_eq!(after.bind_groups, before.bind_groups, "{rows} rows");
        let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&got), bits(&expected), "{rows} rows");
    }
}

#[test]
fn attention_to_many_positions_is_handed_over_in_parts_and_computes_the_same() {
    let Some(options) = options().map(|options| options.variant(Variant::default())) else { return };
    let (rows, context) = (43, 300);
    let positions: Vec<u32> = (0..context as u32).collect();
    let (tokens, sequences) = (vec![0; context], vec![0; context]);
    let attend = |work| {
        let mut gpu = Gpu::new(&options.clone().work(work)).expect("the adapter opens");
        let (layers, formats) = (vec![LayerCache::attention(2, 64, 64)], [KvFormat::F16; 2]);
        let [keys, values] = formats;
        let mut kv = gpu.kv(&KvPlan { layers, context, step: context, sequences: 1, pool: None, keys, values });
        let step = Step { tokens: &tokens, positions: &positions, sequences: &sequences, outputs: &[], decoding: 0 };
        let mut random = Random(5);
        let mut uploaded = |rows, width| {
            let mut buffer = gpu.buffer(rows, width);
            let tokens = vec![0; rows];
            gpu.upload(&mut buffer, &random.floats(rows * width), &Step { tokens: &tokens, ..Step::default() });
            buffer
        };
        let (k, v) = (uploaded(context, WIDTH / 2), uploaded(context, WIDTH / 2));
        let (q, mut out) = (uploaded(rows, WIDTH), uploaded(rows, WIDTH));
        gpu.kv_write(&mut kv, 0, &k, &v, &step);
        let first = context - rows;
        let last =
            Step { tokens: &tokens[first..], positions: &positions[first..], sequences: &sequences[first..], ..step };
        let before = gpu.counters().submits;
        gpu.attend(&mut out, &q, &kv, 0, Attention::causal(HEADS), &last);
        let (snapshot, mut read) = (gpu.snapshot(&out), Vec::new());
        gpu.download(&snapshot, &mut read);
        sound(&mut gpu);
        (gpu.counters().submits - before, read.into_iter().map(f32::to_bits).collect::<Vec<_>>())
    };
    let (whole, expected) = attend(GpuOptions::default().work);
    // 4 heads of 64 + 64 numbers by 300 positions: 154,000 multiply-adds for each row.
    let (parts, got) = attend(1 << 20);
    // What was recorded with the step before goes first, what is read goes last.
    assert_eq!((whole, parts), (2, 8));
    assert_eq!(got.len(), rows * WIDTH);
    assert!(got == expected, "rows of some part differ");
}
