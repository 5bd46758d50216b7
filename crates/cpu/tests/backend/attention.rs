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

/// Feeds both sequences `chunk` tokens of each at a time; see [`fed`].
fn attended<B: Prims>(ops: &mut B, case: &Case, chunk: usize) -> Vec<f32> {
    fed(ops, case, |_| chunk, |_| ())
}

/// The queries, keys and values of all rows.
struct Rows {
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
}

/// Feeds both sequences `chunk(start)` tokens of each at a time, alternating within a step; rows come back by sequence
/// and position. `change` may change what is fed.
fn fed<B: Prims>(ops: &mut B, case: &Case, chunk: impl Fn(usize) -> usize, change: impl FnOnce(&mut Rows)) -> Vec<f32> {
    let Case { heads, format: (keys, values), lengths, seed } = *case;
    let mut random = Random(seed);
    let (q_width, k_width) = (heads.heads * heads.key_dim, heads.kv_heads * heads.key_dim);
    let (v_width, out_width) = (heads.kv_heads * heads.value_dim, heads.heads * heads.value_dim);
    let rows = lengths[0] + lengths[1];
    let mut draw = |width: usize| random.floats(rows * width);
    let mut drawn = Rows { q: draw(q_width), k: draw(k_width), v: draw(v_width) };
    change(&mut drawn);
    let Rows { q, k, v } = drawn;
    let context = lengths[0].max(lengths[1]) + 1;
    let (kv_heads, key_dim, value_dim) = (heads.kv_heads, heads.key_dim, heads.value_dim);
    let plan = KvPlan { layers: 3, kv_heads, key_dim, value_dim, context, sequences: 3, keys, values };
    let mut kv = ops.kv(&plan);
    let mut out = vec![0.0; rows * out_width];
    let mut next = 0;
    while next < context {
        let start = next;
        next += chunk(start);
        // (sequence, position, row)
        let mut places: Vec<(u32, usize, usize)> = Vec::new();
        for position in start..next {
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

/// Long enough for several blocks of positions, whose parts are merged.
fn long(heads: (usize, usize, usize, usize), format: (KvFormat, KvFormat)) -> Case {
    let (heads, kv_heads, key_dim, value_dim) = heads;
    let heads = Heads { heads, kv_heads, key_dim, value_dim, scale: 1.0 / (key_dim as f32).sqrt() };
    Case { heads, format, lengths: [700, 257], seed: heads.heads as u64 }
}

#[test]
fn a_long_text_is_the_same_in_one_go_and_token_by_token() {
    let half = (KvFormat::F16, KvFormat::F16);
    for case in [
        long((3, 3, 16, 20), (KvFormat::F32, KvFormat::F32)),
        long((8, 2, 32, 48), half),
        long((5, 1, 64, 32), half),
        long((64, 1, 32, 32), half),
        long((8, 2, 64, 96), (KvFormat::Q8_0, KvFormat::Q8_0)),
        long((6, 3, 32, 20), (KvFormat::Q8_0, KvFormat::F16)),
        long((1, 1, 33, 64), (KvFormat::F32, KvFormat::Q8_0)),
    ] {
        let want = attended(&mut Reference, &case, 1000);
        let mut first: HashMap<&str, Vec<f32>> = HashMap::new();
        for (name, mut cpu) in backends() {
            let got = attended(&mut cpu, &case, 1000);
            let error = nmse(&got, &want);
            assert!(error < 1e-11, "{name}, {case:?}: {error}");
            let first = first.entry(cpu.kernels().name).or_insert_with(|| got.clone());
            assert_eq!(bits(first), bits(&got), "{name}, {case:?}: unlike one thread");
            let (whole, last) = (case.lengths[0] - 3, |start: usize| (255..258).contains(&start));
            let steps = fed(&mut cpu, &case, |start| if last(start) || start >= whole { 1 } else { 51 }, |_| ());
            assert_eq!(bits(&steps), bits(&got), "{name}, {case:?}: in steps");
        }
    }
}

#[test]
fn scores_that_overflow_downwards_weigh_nothing() {
    let case = long((4, 2, 16, 16), (KvFormat::F32, KvFormat::F32));
    // The first block, and some positions after it, have scores of minus infinity.
    let change = |rows: &mut Rows| {
        rows.q.fill(1e25);
        rows.k[..300 * 32].fill(-1e25);
        rows.k[300 * 32..].fill(1e-26);
    };
    let want = fed(&mut Reference, &case, |_| 1000, change);
    for (name, mut cpu) in backends() {
        let got = fed(&mut cpu, &case, |_| 1000, change);
        // Where every score is, there is no answer.
        assert!(got[..300 * 64].iter().all(|x| x.is_nan()), "{name}");
        let error = nmse(&got[300 * 64..], &want[300 * 64..]);
        assert!(error < 1e-11, "{name}: {error}");
    }
}

#[test]
fn what_is_no_number_spoils_the_rows_that_see_it_alone() {
    let case = long((4, 2, 16, 16), (KvFormat::F16, KvFormat::F16));
    for at in [0, 3, 255, 256, 300] {
        for bad in [f32::NAN, f32::INFINITY] {
            for (name, mut cpu) in backends() {
                let good = attended(&mut cpu, &case, 1000);
                let key = fed(&mut cpu, &case, |_| 1000, |rows| rows.k[at * 32 + 5] = bad);
                let value = fed(&mut cpu, &case, |_| 1000, |rows| rows.v[at * 32 + 5] = bad);
                for (row, good) in good.chunks(64).enumerate() {
                    let case = format!("{name}, {bad} at {at}, row {row}");
                    let (key, value) = (&key[row * 64..][..64], &value[row * 64..][..64]);
                    // The first two heads see it from `at` on, in the first sequence.
                    let sees = (at..700).contains(&row);
                    assert_eq!(bits(&key[32..]), bits(&good[32..]), "{case}: other heads");
                    assert_eq!(bits(&value[32..]), bits(&good[32..]), "{case}: other heads");
                    assert_eq!(bits(&value[..5]), bits(&good[..5]), "{case}: other dimensions");
                    assert!(sees || bits(&key[..32]) == bits(&good[..32]), "{case}: key");
                    assert_eq!(value[5].is_finite() && value[21].is_finite(), !sees, "{case}: value");
                    if bad.is_nan() && sees {
                        assert!(key[..32].iter().all(|x| x.is_nan()), "{case}: {key:?}");
                    }
                }
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
