//! The key-value cache and attention.

use candor_gpu::Gpu;
use candor_ops::{Attention, Heads, KvFormat, KvPlan, LayerCache, Mask, Prims, Reference, Step};
use candor_testing::backend::attention::{Case, Rules, attended, cases, fed, long, looked, ruled, rules};
use candor_testing::backend::forks::{self, forked};
use candor_testing::backend::pools::{self, full, pooled, states};
use candor_testing::backend::{read, upload};
use candor_testing::nmse;

use crate::{of_kind, sound, vector_backends};

#[test]
fn attention_is_the_reference_however_it_is_fed() {
    let mut gpus = vector_backends();
    for (i, case) in cases().enumerate() {
        let want = attended(&mut Reference, &case, 1000);
        // How maxima are found and how a text is fed do not meet, so each device takes its turn.
        for (j, (name, gpu)) in gpus.iter_mut().enumerate() {
            let chunk = if (i + j) % 2 == 0 { 1000 } else { 17 };
            let error = nmse(&of_kind(chunk == 17, || attended(gpu, &case, chunk)), &want);
            assert!(error < 1e-11, "{name}, {case:?}, {chunk} at a time: {error}");
        }
    }
    gpus.iter_mut().for_each(|(_, gpu)| sound(gpu));
}

#[test]
fn a_long_text_is_the_reference_in_one_go_and_token_by_token() {
    let half = (KvFormat::F16, KvFormat::F16);
    let cases = [
        long((3, 3, 16, 20), (KvFormat::F32, KvFormat::F32)),
        long((8, 2, 32, 48), half),
        long((5, 1, 64, 32), half),
        long((64, 1, 32, 32), half),
        long((8, 2, 64, 96), (KvFormat::Q8_0, KvFormat::Q8_0)),
        long((1, 1, 33, 64), (KvFormat::F32, KvFormat::Q8_0)),
        long((6, 3, 32, 20), (KvFormat::Q8_0, KvFormat::F16)),
        long((8, 2, 64, 96), (KvFormat::Q4_0, KvFormat::Q4_0)),
        long((4, 1, 128, 256), (KvFormat::F16, KvFormat::Q4_0)),
        long((3, 3, 160, 32), (KvFormat::Q4_0, KvFormat::Q8_0)),
    ];
    for (i, case) in cases.into_iter().enumerate() {
        let case = Case { lengths: [330, 90], ..case };
        let want = attended(&mut Reference, &case, 1000);
        // How maxima are found has nothing to do with how positions are parted, so each device takes its turn.
        for (j, (name, mut gpu)) in vector_backends().into_iter().enumerate() {
            if (i + j) % 2 == 0 {
                let error = nmse(&attended(&mut gpu, &case, 1000), &want);
                assert!(error < 1e-11, "{name}, {case:?}: {error}");
                sound(&mut gpu);
                continue;
            }
            // Positions are split for rows that decode.
            let (whole, last) = (case.lengths[0] - 3, |start: usize| (255..258).contains(&start));
            let chunk = |start| if last(start) || start >= whole { 1 } else { 51 };
            let steps = of_kind(true, || fed(&mut gpu, &case, chunk, |_| ()));
            let error = nmse(&steps, &want);
            assert!(error < 1e-11, "{name}, {case:?}, in steps: {error}");
            sound(&mut gpu);
        }
    }
}

#[test]
fn rows_of_one_sequence_share_what_they_read() {
    let formats = [(KvFormat::F32, KvFormat::F16), (KvFormat::F16, KvFormat::F16)];
    let mut gpus = vector_backends();
    let count = gpus.len();
    for (i, heads) in [(1, 1, 2, 2), (6, 2, 64, 64), (20, 1, 33, 20), (4, 4, 300, 130)].into_iter().enumerate() {
        let case = Case { lengths: [150, 0], ..long(heads, formats[i % 2]) };
        let want = attended(&mut Reference, &case, 1000);
        // How maxima are found and how a text is fed do not meet, so each device takes its turn.
        for (j, chunk) in [1000, 37].into_iter().enumerate().filter(|_| count > 0) {
            let (name, gpu) = &mut gpus[(i + j) % count];
            let error = nmse(&of_kind(chunk == 37, || attended(gpu, &case, chunk)), &want);
            assert!(error < 1e-11, "{name}, {case:?}, {chunk} at a time: {error}");
            sound(gpu);
        }
    }
}

/// More rows than the text has tokens, and fewer; a text of several blocks.
#[test]
fn rows_look_at_a_text_from_its_end() {
    let long = long((4, 2, 16, 16), (KvFormat::F16, KvFormat::F16));
    let mut gpus = vector_backends();
    let count = gpus.len();
    for (i, case) in cases().step_by(4).chain([long]).enumerate().filter(|_| count > 0) {
        for (j, rows) in [1, 3, 40].into_iter().enumerate() {
            let want = looked(&mut Reference, &case, rows);
            // As above, a device takes its turn.
            let (name, gpu) = &mut gpus[(i + j) % count];
            let error = nmse(&of_kind(rows < 40, || looked(gpu, &case, rows)), &want);
            assert!(error < 1e-11, "{name}, {case:?}, {rows} rows: {error:e}");
            sound(gpu);
        }
    }
}

#[test]
fn large_scores_do_not_overflow() {
    let heads = Heads { heads: 2, kv_heads: 1, key_dim: 4, value_dim: 4, scale: 1e4 };
    for seed in 0..4 {
        let case = Case { heads, format: (KvFormat::F32, KvFormat::F32), lengths: [20, 20], seed };
        let want = attended(&mut Reference, &case, 5);
        for (name, mut gpu) in vector_backends() {
            let error = nmse(&attended(&mut gpu, &case, 5), &want);
            assert!(error < 1e-6, "{name}, seed {seed}: {error}");
        }
    }
}

/// Half of the attended values come from a cache that rounds, so the rounding itself must be the reference's.
#[test]
fn halves_are_rounded_to_the_nearest_even() {
    let heads = Heads { heads: 1, kv_heads: 1, key_dim: 2, value_dim: 8, scale: 1.0 };
    let (keys, values) = (KvFormat::F32, KvFormat::F16);
    let plan = KvPlan {
        layers: vec![LayerCache::attention(1, 2, 8); 1],
        context: 1,
        step: 1,
        sequences: 1,
        pool: None,
        keys,
        values,
    };
    let v = [2049.0, 2051.0, 0.1, 65519.0, 1e-8, -6e-8, 6.1e-5, -1.0];
    for (name, mut gpu) in vector_backends() {
        let (mut kv, mut out) = (gpu.kv(&plan), gpu.buffer(1, 8));
        let step = Step { tokens: &[], positions: &[0], sequences: &[0], outputs: &[], decoding: 0 };
        let (x, v) = (upload(&mut gpu, 2, &[1.0, 1.0]), upload(&mut gpu, 8, &v));
        gpu.kv_write(&mut kv, 0, &x, &v, &step);
        gpu.attend(&mut out, &x, &kv, 0, Attention::causal(heads), &step);
        let got = read(&mut gpu, &out);
        assert_eq!(got, [2048.0, 2052.0, 0.099_975_586, 65504.0, 0.0, -5.960_464_5e-8, 6.097_555e-5, -1.0], "{name}");
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
    for (name, mut gpu) in vector_backends() {
        let (mut kv, mut out) = (gpu.kv(&plan), gpu.buffer(1, 2));
        for value in [1.0, 2.0, 3.0] {
            let x = upload(&mut gpu, 2, &[value, -value]);
            let step = Step { tokens: &[], positions: &[0], sequences: &[0], outputs: &[], decoding: 0 };
            gpu.kv_write(&mut kv, 0, &x, &x, &step);
            gpu.attend(&mut out, &x, &kv, 0, Attention::causal(heads), &step);
            assert_eq!(read(&mut gpu, &out), [value, -value], "{name}");
        }
    }
}

/// Compares with the reference, as rows of prompts or as rows that decode: a first step of `first` positions, then
/// steps of `then`.
fn check((name, gpu): (&str, &mut Gpu), (case, rules): (&Case, &Rules), [first, then]: [usize; 2], decodes: bool) {
    let want = ruled(&mut Reference, (case, rules), |_| 1000, |_| ());
    // What rows see of later steps was not there yet.
    let chunk = |start| {
        if rules.mask.is_both() {
            1000
        } else if start == 0 {
            first
        } else {
            then
        }
    };
    let error = nmse(&of_kind(decodes, || ruled(gpu, (case, rules), chunk, |_| ())), &want);
    assert!(error < 1e-11, "{name}, {case:?}, {rules:?}, {first} and then {then} at a time, {decodes}: {error}");
    sound(gpu);
}

#[test]
fn masks_caps_and_biases_are_the_reference() {
    let formats = [(KvFormat::F32, KvFormat::F32), (KvFormat::F16, KvFormat::F16)];
    let mut gpus = vector_backends();
    let count = gpus.len();
    for (i, rules) in rules().iter().enumerate().filter(|_| count > 0) {
        let heads = [(8, 2, 32, 32), (5, 1, 64, 32), (2, 2, 32, 64)][i % 3];
        let lengths = if i / 2 % 2 == 0 { [310, 0] } else { [307, 90] };
        // How maxima are found and what becomes of scores do not meet, so each device takes its turn.
        let (name, gpu) = &mut gpus[i % count];
        let case = Case { lengths, ..long(heads, formats[i % 2]) };
        // Of positions as few as these only those of rows that decode are parted.
        check((name, gpu), (&case, rules), [300, 1], i % 4 != 3);
    }
}

/// A cache that keeps no more than rows of a step can see.
#[test]
fn a_ring_is_the_same_as_the_whole_cache() {
    let rings = [Mask::Window(30), Mask::Window(256), Mask::Chunk(100), Mask::Window(20), Mask::Window(20)];
    for (j, (name, mut gpu)) in vector_backends().into_iter().enumerate() {
        for (i, mask) in rings.into_iter().enumerate() {
            let format = match i {
                3 => (KvFormat::Q8_0, KvFormat::F32),
                4 => (KvFormat::Q4_0, KvFormat::Q4_0),
                _ => (KvFormat::F16, KvFormat::F16),
            };
            let lengths = if i >= 3 { [300, 0] } else { [700, 357] };
            let case = Case { lengths, ..long((4, 2, 32, 32), format) };
            let chunks = [[51, 51], [100, 100], [51, 100], [1, 1], [1, 1]][i];
            let rules = Rules { mask, ring: true, ..Rules::default() };
            check((&name, &mut gpu), (&case, &rules), chunks, (i + j) % 2 == 0);
        }
    }
}

#[test]
fn sequences_that_begin_alike_part_as_those_of_the_reference() {
    for (i, (case, rules)) in forks::cases().into_iter().enumerate() {
        let want = forked(&mut Reference, &case, rules);
        for (j, (name, mut gpu)) in vector_backends().into_iter().enumerate() {
            let decodes = (i + j) % 2 == 0;
            let error = nmse(&of_kind(decodes, || forked(&mut gpu, &case, rules)), &want);
            assert!(error < 1e-11, "{name}, {case:?}, {rules:?}, {decodes}: {error}");
            sound(&mut gpu);
        }
    }
}

#[test]
fn a_pool_gives_and_takes_as_that_of_the_reference() {
    for case in pools::cases() {
        let want = pooled(&mut Reference, &case);
        for (name, mut gpu) in vector_backends() {
            let got = pooled(&mut gpu, &case);
            assert_eq!(got.answers, want.answers, "{name}, {case:?}");
            let error = nmse(&got.seen, &want.seen);
            assert!(error < 1e-11, "{name}, {case:?}: {error}");
            sound(&mut gpu);
        }
    }
}

#[test]
fn a_full_pool_is_not_written_to_and_that_is_the_end() {
    for (name, mut gpu) in vector_backends() {
        let [before, after] = full(&mut gpu);
        assert_eq!(before, after, "{name}: a page of others was written over");
        let message = gpu.finish().expect_err("no room").to_string();
        assert!(message.ends_with(": cache is full: expected 1 free pages, got 0"), "{message}");
    }
}

#[test]
fn states_take_no_pages() {
    states(&mut Reference);
    for (_, mut gpu) in vector_backends() {
        states(&mut gpu);
        sound(&mut gpu);
    }
}
