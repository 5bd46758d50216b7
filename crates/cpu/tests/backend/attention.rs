//! The key-value cache and attention.

use std::collections::HashMap;

use candor_cpu::{Cpu, CpuOptions};
use candor_ops::{Attention, Heads, KvFormat, KvPlan, LayerCache, Prims, Reference, Step};
use candor_testing::backend::attention::{Case, Rows, attended, cases, fed, long, looked};
use candor_testing::backend::forks::{self, forked};
use candor_testing::backend::pools::{self, full, pooled, states};
use candor_testing::backend::{bits, read, upload};
use candor_testing::nmse;

use crate::beside_products;

#[test]
fn attention_is_the_reference_however_it_is_fed() {
    for case in cases() {
        let want = attended(&mut Reference, &case, 1000);
        assert_eq!(bits(&want), bits(&attended(&mut Reference, &case, 3)), "reference, {case:?}");
        let mut first: HashMap<&str, Vec<f32>> = HashMap::new();
        for (name, mut cpu) in beside_products() {
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
        for (name, mut cpu) in beside_products() {
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
    for (name, mut cpu) in beside_products() {
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
            for (name, mut cpu) in beside_products() {
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
    let plan = KvPlan {
        layers: vec![LayerCache::attention(1, 2, 2); 1],
        context: 2,
        step: 2,
        sequences: 1,
        pool: None,
        keys,
        values,
    };
    for (name, mut cpu) in beside_products() {
        let mut kv = cpu.kv(&plan);
        let mut out = cpu.buffer(1, 2);
        for value in [1.0, 2.0, 3.0] {
            let x = upload(&mut cpu, 2, &[value, -value]);
            let step = Step { tokens: &[], positions: &[0], sequences: &[0], outputs: &[], decoding: 0 };
            cpu.kv_write(&mut kv, 0, &x, &x, &step);
            cpu.attend(&mut out, &x, &kv, 0, Attention::causal(heads), &step);
            assert_eq!(read(&mut cpu, &out), [value, -value], "{name}");
        }
    }
}

/// More rows than the text has tokens, and fewer; a text of several blocks.
#[test]
fn rows_look_at_a_text_from_its_end() {
    let long = long((4, 2, 16, 16), (KvFormat::F16, KvFormat::F16));
    for case in cases().chain([long]) {
        for rows in [1, 3, 40] {
            let want = looked(&mut Reference, &case, rows);
            for (name, mut cpu) in beside_products() {
                let error = nmse(&looked(&mut cpu, &case, rows), &want);
                assert!(error < 1e-11, "{name}, {case:?}, {rows} rows: {error:e}");
            }
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
        for (name, mut cpu) in beside_products() {
            let error = nmse(&attended(&mut cpu, &case, 5), &want);
            assert!(error < 1e-6, "{name}, seed {seed}: {error}");
        }
    }
}

#[test]
fn sequences_that_begin_alike_part_as_those_of_the_reference() {
    for (case, rules) in forks::cases() {
        let want = forked(&mut Reference, &case, rules);
        for (name, mut cpu) in beside_products() {
            let error = nmse(&forked(&mut cpu, &case, rules), &want);
            assert!(error < 1e-11, "{name}, {case:?}, {rules:?}: {error}");
        }
    }
}

#[test]
fn a_pool_gives_and_takes_as_that_of_the_reference() {
    for case in pools::cases() {
        let want = pooled(&mut Reference, &case);
        for (name, mut cpu) in beside_products() {
            let got = pooled(&mut cpu, &case);
            assert_eq!(got.answers, want.answers, "{name}, {case:?}");
            let error = nmse(&got.seen, &want.seen);
            assert!(error < 1e-11, "{name}, {case:?}: {error}");
        }
    }
}

#[test]
#[should_panic(expected = "room is reserved before positions are written: Full { needed: 1, free: 0 }")]
fn a_full_pool_is_not_written_to() {
    full(&mut Cpu::new(CpuOptions { threads: 1, ..CpuOptions::default() }));
}

#[test]
fn states_take_no_pages() {
    states(&mut Reference);
    for (_, mut cpu) in beside_products() {
        states(&mut cpu);
    }
}
