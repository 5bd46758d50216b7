//! The key-value cache and attention.

use std::collections::HashMap;

use candor_ops::{Heads, KvFormat, KvPlan, Prims, Reference, Step};

use crate::random::Random;
use crate::{backends, bits, nmse, read, upload};

/// `(query heads, key and value heads, key width, value width)`.
const HEADS: &[(usize, usize, usize, usize)] =
    &[(1, 1, 2, 2), (4, 4, 16, 16), (8, 2, 64, 64), (6, 3, 33, 20), (7, 1, 48, 80), (32, 4, 64, 64)];

/// What a sequence's tokens are fed in: rows per step.
#[derive(Clone, Copy, Debug)]
struct Case {
    heads: Heads,
    format: (KvFormat, KvFormat),
    /// Positions of the sequences 0 and 2; sequence 1 stays empty.
    lengths: [usize; 2],
    seed: u64,
}

fn cases() -> impl Iterator<Item = Case> {
    let (half, single) = (KvFormat::F16, KvFormat::F32);
    let formats = [(single, single), (half, half), (single, half), (half, single)];
    let lengths = [[1, 0], [2, 3], [7, 1], [33, 9], [130, 40]];
    let heads = HEADS.iter().map(|&(heads, kv_heads, key_dim, value_dim)| Heads {
        heads,
        kv_heads,
        key_dim,
        value_dim,
        scale: 1.0 / (key_dim as f32).sqrt(),
    });
    heads.enumerate().flat_map(move |(i, heads)| {
        lengths.into_iter().enumerate().map(move |(j, lengths)| Case {
            heads,
            format: formats[(i + j) % 4],
            lengths,
            seed: (i * 8 + j) as u64,
        })
    })
}

/// Feeds both sequences `chunk` tokens of each at a time, alternating within a step; rows come back by sequence and
/// position.
fn attended<B: Prims>(ops: &mut B, case: &Case, chunk: usize) -> Vec<f32> {
    let Case { heads, format: (keys, values), lengths, seed } = *case;
    let mut random = Random(seed);
    let (q_width, k_width) = (heads.heads * heads.key_dim, heads.kv_heads * heads.key_dim);
    let (v_width, out_width) = (heads.kv_heads * heads.value_dim, heads.heads * heads.value_dim);
    let rows = lengths[0] + lengths[1];
    let mut draw = |width: usize| random.floats(rows * width);
    let (q, k, v) = (draw(q_width), draw(k_width), draw(v_width));
    let context = lengths[0].max(lengths[1]) + 1;
    let (kv_heads, key_dim, value_dim) = (heads.kv_heads, heads.key_dim, heads.value_dim);
    let plan = KvPlan { layers: 3, kv_heads, key_dim, value_dim, context, sequences: 3, keys, values };
    let mut kv = ops.kv(&plan);
    let mut out = vec![0.0; rows * out_width];
    for start in (0..context).step_by(chunk) {
        // (sequence, position, row)
        let mut places: Vec<(u32, usize, usize)> = Vec::new();
        for position in start..start + chunk {
            if position < lengths[0] {
                places.push((0, position, position));
            }
            if position < lengths[1] {
                places.push((2, position, lengths[0] + position));
            }
        }
        if places.is_empty() {
            continue;
        }
        let pick = |all: &[f32], width: usize| -> Vec<f32> {
            places.iter().flat_map(|&(_, _, row)| &all[row * width..][..width]).copied().collect()
        };
        let positions: Vec<u32> = places.iter().map(|place| place.1 as u32).collect();
        let sequences: Vec<u32> = places.iter().map(|place| place.0).collect();
        let step = Step { tokens: &[], positions: &positions, sequences: &sequences, outputs: &[] };
        let (q, k) = (upload(ops, q_width, &pick(&q, q_width)), upload(ops, k_width, &pick(&k, k_width)));
        let v = upload(ops, v_width, &pick(&v, v_width));
        let mut att = ops.buffer(places.len(), out_width);
        ops.kv_write(&mut kv, 1, &k, &v, &step);
        // Other layers and sequences hold something else.
        let (k, v) = (
            upload(ops, k_width, &vec![1e3; places.len() * k_width]),
            upload(ops, v_width, &vec![1e3; places.len() * v_width]),
        );
        for (layer, sequence) in (0..9).map(|i| (i / 3, i as u32 % 3)).filter(|place| ![(1, 0), (1, 2)].contains(place))
        {
            let sequences = vec![sequence; places.len()];
            ops.kv_write(&mut kv, layer, &k, &v, &Step { sequences: &sequences, ..step });
        }
        ops.attend(&mut att, &q, &kv, 1, heads, &step);
        let att = read(ops, &att);
        for (&(_, _, row), att) in places.iter().zip(att.chunks(out_width)) {
            out[row * out_width..][..out_width].copy_from_slice(att);
        }
    }
    out
}

#[test]
fn attention_is_the_reference_however_it_is_fed() {
    for case in cases() {
        let want = attended(&mut Reference, &case, 1000);
        assert_eq!(bits(&want), bits(&attended(&mut Reference, &case, 3)), "reference, {case:?}");
        let mut first: HashMap<&str, Vec<f32>> = HashMap::new();
        for (name, mut cpu) in backends() {
            let got = attended(&mut cpu, &case, 1000);
            let error = nmse(&got, &want);
            assert!(error < 1e-11, "{name}, {case:?}: {error}");
            let first = first.entry(cpu.kernels().name).or_insert_with(|| got.clone());
            assert_eq!(bits(first), bits(&got), "{name}, {case:?}: unlike one thread");
            for chunk in [1, 3, 7, 64] {
                let steps = attended(&mut cpu, &case, chunk);
                assert_eq!(bits(&steps), bits(&got), "{name}, {case:?}: {chunk} at a time");
            }
        }
    }
}

#[test]
fn a_position_can_be_written_again() {
    let heads = Heads { heads: 1, kv_heads: 1, key_dim: 2, value_dim: 2, scale: 1.0 };
    let (keys, values) = (KvFormat::F16, KvFormat::F16);
    let plan = KvPlan { layers: 1, kv_heads: 1, key_dim: 2, value_dim: 2, context: 2, sequences: 1, keys, values };
    for (name, mut cpu) in backends() {
        let mut kv = cpu.kv(&plan);
        let mut out = cpu.buffer(1, 2);
        for value in [1.0, 2.0, 3.0] {
            let x = upload(&mut cpu, 2, &[value, -value]);
            let step = Step { tokens: &[], positions: &[0], sequences: &[0], outputs: &[] };
            cpu.kv_write(&mut kv, 0, &x, &x, &step);
            cpu.attend(&mut out, &x, &kv, 0, heads, &step);
            assert_eq!(read(&mut cpu, &out), [value, -value], "{name}");
        }
    }
}

#[test]
fn large_scores_do_not_overflow() {
    let heads = Heads { heads: 2, kv_heads: 1, key_dim: 4, value_dim: 4, scale: 1.0 };
    for seed in 0..4 {
        let (format, lengths) = ((KvFormat::F32, KvFormat::F32), [20, 20]);
        let case = Case { heads: Heads { scale: 1e4, ..heads }, format, lengths, seed };
        let want = attended(&mut Reference, &case, 5);
        for (name, mut cpu) in backends() {
            let error = nmse(&attended(&mut cpu, &case, 5), &want);
            assert!(error < 1e-6, "{name}, seed {seed}: {error}");
        }
    }
}
