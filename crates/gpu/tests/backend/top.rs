//! The best elements of rows, found on the device, are those that the order of samplers says: each bit of each of them.

use candor_gpu::Gpu;
use candor_ops::{Ops, Prims, Ranked, Step, top_k};
use candor_testing::Random;

use crate::{sound, vector_backends};

/// Makes an element.
type Draw = fn(&mut Random) -> f32;

/// Rows that are hard on an order, by what they are.
const KINDS: [(&str, Draw); 9] = [
    ("spread", |random| random.signed() * 12.0),
    ("coarse, so that there are ties", |random| (random.signed() * 3.0).round()),
    ("nearly one value", |random| 7.0 + f32::from(u8::from(random.below(4000) == 0)) * f32::EPSILON * 8.0),
    ("one value", |_| -1.5),
    ("zeros of both signs", |random| [0.0, -0.0][random.below(2)]),
    ("subnormal", |random| f32::from_bits(random.bits() as u32 & 0x8000_000f)),
    ("masked but for a few", |random| if random.below(700) == 0 { random.signed() } else { f32::NEG_INFINITY }),
    ("infinite and the largest", |random| {
        [f32::INFINITY, f32::MAX, f32::MIN, f32::NEG_INFINITY, 1.0e38][random.below(5)]
    }),
    ("any bits, of which some are no number", |random| f32::from_bits(random.bits() as u32)),
];

/// The very bits, whatever they mean.
fn uploaded(gpu: &mut Gpu, width: usize, values: &[f32]) -> <Gpu as Prims>::Buf {
    let rows = values.len() / width;
    let mut x = gpu.buffer(rows, width);
    gpu.upload(&mut x, values, &Step { tokens: &vec![0; rows], ..Step::default() });
    x
}

fn random_floats(seed: u64, len: usize) -> Vec<f32> {
    let mut random = Random(seed);
    (0..len).map(|_| random.signed()).collect()
}

fn found(gpu: &mut Gpu, width: usize, values: &[f32], k: usize) -> Vec<Ranked> {
    let (x, mut out) = (uploaded(gpu, width, values), vec![(9, 9.0)]);
    let best = gpu.top_k(&x, width, k);
    gpu.ranked(&best, width, k, &mut out);
    out
}

fn bits(elements: &[Ranked]) -> Vec<(u32, u32)> {
    elements.iter().map(|&(place, value)| (place, value.to_bits())).collect()
}

fn check(gpu: &mut Gpu, case: &str, width: usize, values: &[f32], k: usize) {
    let mut want = Vec::new();
    values.chunks_exact(width).for_each(|row| top_k(row, k, &mut want));
    let got = found(gpu, width, values, k);
    assert!(bits(&got) == bits(&want), "{case}: the best {k} of {width}: got {got:?}, expected {want:?}");
}

#[test]
fn the_best_are_those_that_sorting_finds() {
    for (name, mut gpu) in vector_backends() {
        for (seed, width) in [1, 2, 63, 100, 256, 257, 4095, 4096, 4097, 9000].into_iter().enumerate() {
            for (kind, draw) in KINDS {
                let mut random = Random(seed as u64 * 100 + 1);
                let values: Vec<f32> = (0..3 * width).map(|_| draw(&mut random)).collect();
                let case = format!("{name}, {kind}, seed {seed}");
                for k in [1, 2, 3, 40, 64, 65, 256] {
                    check(&mut gpu, &case, width, &values[..width], k);
                }
                check(&mut gpu, &case, width, &values, 40);
            }
        }
        sound(&mut gpu);
    }
}

/// The vocabularies of Llama 3 and Gemma 3, and one that ends behind a slice's first element.
#[test]
fn the_best_of_large_vocabularies_are_found() {
    for (name, mut gpu) in vector_backends() {
        for (width, k) in [(128_256, 40), (262_144, 128), (262_145, 256), (131_073, 1)] {
            for (kind, draw) in KINDS {
                let mut random = Random(width as u64);
                let values: Vec<f32> = (0..width).map(|_| draw(&mut random)).collect();
                check(&mut gpu, &format!("{name}, {kind}"), width, &values, k);
            }
        }
        sound(&mut gpu);
    }
}

#[test]
fn more_than_fit_are_found_by_reading() {
    for (name, mut gpu) in vector_backends() {
        let values = random_floats(5, 2 * 700);
        for k in [Gpu::TOP_K + 1, 700, 9000] {
            check(&mut gpu, &name, 700, &values, k);
        }
        check(&mut gpu, &name, 700, &values, 0);
        sound(&mut gpu);
    }
}

#[test]
fn finding_them_is_one_submit_and_as_many_bytes_as_were_asked_for() {
    for (name, mut gpu) in vector_backends() {
        let (width, k) = (5000, 41);
        let values = random_floats(6, width);
        let (x, mut out) = (uploaded(&mut gpu, width, &values), Vec::new());
        let mut counters = vec![gpu.counters()];
        for _ in 0..3 {
            let best = gpu.top_k(&x, width, k);
            gpu.ranked(&best, width, k, &mut out);
            counters.push(gpu.counters());
        }
        // One more needs no other shader, nor other buffers.
        let best = gpu.top_k(&x, width, k + 1);
        gpu.ranked(&best, width, k + 1, &mut out);
        counters.push(gpu.counters());
        for (number, pair) in counters.windows(2).enumerate() {
            let [before, after] = [pair[0], pair[1]];
            let case = format!("{name}, {number}: {before:?} {after:?}");
            let k = if number == 3 { k + 1 } else { k };
            assert_eq!(after.submits - before.submits, 1, "{case}");
            assert_eq!(after.dispatches - before.dispatches, 2, "{case}");
            assert_eq!(after.bytes_read - before.bytes_read, 8 * k as u64, "{case}");
            if number > 0 {
                assert_eq!((after.buffers, after.bind_groups), (before.buffers, before.bind_groups), "{case}");
            }
        }
        sound(&mut gpu);
    }
}
