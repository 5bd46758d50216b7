//! Attention of prompts by cooperative matrices, on adapters that have some.

use candor_gpu::Gpu;
use candor_ops::{KvFormat, Mask, Reference};
use candor_quant::Format;
use candor_testing::backend::attention::{Case, Rules, long, ruled, rules};
use candor_testing::backend::products::product;
use candor_testing::backend::{Random, bits};
use candor_testing::nmse;

use crate::{backends, sound};

const HALVES: (KvFormat, KvFormat) = (KvFormat::F16, KvFormat::F16);

/// Weights are rounded to halves: by a part in 4096 at most, and a third of its square on the average.
const ERROR: f64 = 1e-7;

/// The devices that multiply matrices.
pub(crate) fn matrix_backends() -> Vec<(String, Gpu)> {
    backends().into_iter().filter(|(_, gpu)| gpu.variant().cooperative.is_some()).collect()
}

/// The error, which is within its bound.
fn check((name, gpu): (&str, &mut Gpu), case: &Case, rules: &Rules, chunk: usize) -> f64 {
    let want = ruled(&mut Reference, (case, rules), |_| 1000, |_| ());
    let chunk = if rules.mask.is_both() { 1000 } else { chunk };
    let got = ruled(gpu, (case, rules), |_| chunk, |_| ());
    let error = nmse(&got, &want);
    assert!(error < ERROR, "{name}, {case:?}, {rules:?}, {chunk} at a time: {error:e}");
    sound(gpu);
    error
}

#[test]
fn prompts_are_the_reference_however_they_are_fed() {
    let shapes = [(8, 2, 64, 64), (3, 3, 128, 128), (6, 2, 32, 48), (20, 1, 64, 32), (71, 1, 16, 16), (2, 1, 96, 128)];
    for (name, mut gpu) in matrix_backends() {
        for (i, heads) in shapes.into_iter().enumerate() {
            let lengths = [[700, 257], [33, 9], [130, 1]][i % 3];
            let case = Case { lengths, ..long(heads, HALVES) };
            for chunk in [1000, 37] {
                let error = check((&name, &mut gpu), &case, &Rules::default(), chunk);
                assert!(error > 1e-10, "{name}, {case:?}: {error:e}, as if nothing were rounded");
            }
        }
    }
}

#[test]
fn masks_caps_and_biases_are_the_reference() {
    for (name, mut gpu) in matrix_backends() {
        for (i, rules) in rules().iter().enumerate() {
            let heads = [(8, 2, 32, 32), (5, 1, 64, 32), (2, 2, 32, 64)][i % 3];
            let case = Case { lengths: [[310, 0], [307, 90]][i / 2 % 2], ..long(heads, HALVES) };
            check((&name, &mut gpu), &case, rules, [300, 51][i % 2]);
        }
    }
}

/// More positions than a span of a prompt's row has.
#[test]
fn spans_are_merged() {
    for (name, mut gpu) in matrix_backends() {
        for mask in [Mask::Causal, Mask::Window(2500)] {
            let case = Case { lengths: [4200, 0], ..long((2, 1, 16, 16), HALVES) };
            check((&name, &mut gpu), &case, &Rules { mask, sinks: true, ..Rules::default() }, 1500);
        }
    }
}

/// Compares a product large enough for tall tiles with one that is too small for them.
#[test]
fn tall_tiles_have_the_bits_of_others() {
    for (name, mut gpu) in matrix_backends() {
        for format in [Format::Q4K, Format::Q6K, Format::F16] {
            let tensor = Random(3).matrix(format, 4200, 256);
            let x = Random(4).floats(300 * 256);
            let all = product(&mut gpu, &tensor, &x);
            let few = product(&mut gpu, &tensor, &x[..70 * 256]);
            assert_eq!(bits(&all[..few.len()]), bits(&few), "{name}, {format:?}");
        }
        sound(&mut gpu);
    }
}
