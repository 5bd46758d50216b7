//! Fusions against their definitions.

use candor_ops::{Attention, Heads, KvFormat, KvPlan, LayerCache, Ops, Pairing, Plain, Rope, Step};
use candor_quant::Format;
use candor_testing::backend::fusions::all_fusions;
use candor_testing::backend::{Random, bits, read, upload};
use candor_testing::nmse;

use crate::{backends, differs, of_kind, sound, vector_backends};

const MIXES: &[[Format; 3]] = &[
    [Format::Q4K, Format::Q6K, Format::Q8_0],
    [Format::F16, Format::Q4_0, Format::F32],
    [Format::Mxfp4, Format::Iq4Xs, Format::Q5K],
];

#[test]
fn fusions_are_their_definitions() {
    for (name, mut gpu) in backends() {
        for (i, &mix) in MIXES.iter().enumerate() {
            for rows in [1, 2, 7, 33] {
                let few = (rows + i) % 2 == 0;
                if !differs(&gpu, few) {
                    continue;
                }
                let plain = of_kind(few, || all_fusions(&mut Plain(gpu.clone()), mix, rows, i as u64));
                let fused = of_kind(few, || all_fusions(&mut gpu, mix, rows, i as u64));
                for (which, (plain, fused)) in plain.iter().zip(&fused).enumerate() {
                    let error = nmse(fused, plain);
                    assert!(error < 1e-12, "{name}, {mix:?}, {rows} rows, result {which}: {error}");
                }
            }
        }
        sound(&mut gpu);
    }
}

/// A cache's formats of keys and values, the heads of queries and of keys, the widths of a key and of a value, and how many of a
/// key's pairs turn.
type Cache = ([KvFormat; 2], [usize; 2], [usize; 2], (Pairing, usize));

/// Queries and keys after [`Ops::rope_write`], and what attention makes of the cache.
fn written<B: Ops>(ops: &mut B, case: &Cache, sequences: &[u32], positions: &[u32]) -> [Vec<u32>; 3] {
    let ([keys, values], [q_heads, kv_heads], [key_dim, value_dim], (pairing, pairs)) = *case;
    let mut random = Random(11);
    let layer = LayerCache::attention(kv_heads, key_dim, value_dim);
    let (context, step) = (300, 300);
    let plan = KvPlan { layers: vec![layer; 2], context, step, sequences: 3, pool: None, keys, values };
    let mut kv = ops.kv(&plan);
    let rope = Rope { pairing, frequencies: (1..=pairs).map(|i| 0.9 / i as f64).collect(), magnitude: 1.25 };
    let rope = ops.rope_table(rope);
    let rows = positions.len();
    let widths = [q_heads * key_dim, kv_heads * key_dim, kv_heads * value_dim];
    let [mut q, mut k, mut v] = widths.map(|width| upload(ops, width, &random.floats(rows * width)));
    let tokens = vec![0; rows];
    let decoding = rows;
    let step = Step { tokens: &tokens, positions, sequences, outputs: &[], decoding };
    ops.rope_write(&mut kv, 1, [&mut q, &mut k, &mut v], (&rope, key_dim), &step);
    let heads = Heads { heads: q_heads, kv_heads, key_dim, value_dim, scale: 0.3 };
    let mut out = ops.buffer(rows, q_heads * value_dim);
    ops.attend(&mut out, &q, &kv, 1, Attention::causal(heads), &step);
    [&q, &k, &out].map(|x| bits(&read(ops, x)))
}

#[test]
fn what_is_turned_and_written_at_once_is_as_one_after_the_other() {
    use KvFormat::{F16, F32, Q4_0, Q8_0};
    let cases: [Cache; 5] = [
        ([F16, F16], [4, 2], [64, 64], (Pairing::Neox, 32)),
        ([F32, F16], [3, 3], [20, 33], (Pairing::Norm, 10)),
        ([Q8_0, Q4_0], [4, 1], [160, 32], (Pairing::Norm, 80)),
        ([Q4_0, Q8_0], [2, 2], [64, 96], (Pairing::Neox, 20)),
        ([F16, F32], [1, 1], [258, 5], (Pairing::Norm, 12)),
    ];
    for (name, gpu) in vector_backends() {
        for case in &cases {
            for (sequences, positions) in
                [(vec![0], vec![0]), (vec![1], vec![200]), (vec![0, 1, 2, 2, 2], vec![7, 299, 3, 4, 5])]
            {
                let [plain, fused] = of_kind(true, || {
                    let plain = written(&mut Plain(gpu.clone()), case, &sequences, &positions);
                    [plain, written(&mut gpu.clone(), case, &sequences, &positions)]
                });
                for (what, (plain, fused)) in ["queries", "keys", "attention"].iter().zip(plain.iter().zip(&fused)) {
                    assert!(plain == fused, "{name}, {case:?}, {positions:?}: {what}");
                }
            }
        }
    }
}
