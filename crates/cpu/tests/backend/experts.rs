//! Mixtures of experts, and products per head.

use std::collections::HashMap;

use candor_ops::{Plain, Reference};
use candor_quant::Format;
use candor_testing::backend::experts::{Case, HEADS, cases, choices, per_head, products, summed, two_products};
use candor_testing::backend::{Random, bits};
use candor_testing::nmse;

use crate::backends;
use crate::products::rounded;

/// With 8-bit inputs, with floats, and without a kernel.
const FORMATS: [Format; 6] = [Format::F32, Format::Q4K, Format::Q8_0, Format::Bf16, Format::Iq2Xs, Format::Q4_0];

#[test]
fn choices_are_the_reference() {
    for case in cases() {
        let (experts, weights) = choices(&mut Reference, &case);
        for (name, mut cpu) in backends() {
            let got = choices(&mut cpu, &case);
            assert_eq!(got.0, experts, "{name}, {case:?}");
            let error = nmse(&got.1, &weights);
            assert!(error < 1e-13, "{name}, {case:?}: {error}");
        }
    }
}

/// Runs a product on each way of the CPU, and the reference on inputs as the CPU's kernels see them.
fn check(
    case: &str,
    format: Format,
    x: &[f32],
    want: impl Fn(&[f32]) -> Vec<f32>,
    got: impl Fn(&mut candor_cpu::Cpu) -> Vec<f32>,
) {
    let mut first: HashMap<&str, Vec<f32>> = HashMap::new();
    let mut wanted: HashMap<bool, Vec<f32>> = HashMap::new();
    for (name, mut cpu) in backends() {
        let q8 = (cpu.kernels().mat)(format).is_some_and(|kernels| kernels.q8);
        let want = wanted.entry(q8).or_insert_with(|| if q8 { want(&rounded(x)) } else { want(x) });
        let got = got(&mut cpu);
        let error = nmse(&got, want);
        assert!(error < 1e-11, "{format}, {case}, {name}: {error}");
        let first = first.entry(cpu.kernels().name).or_insert_with(|| got.clone());
        assert_eq!(bits(first), bits(&got), "{format}, {case}, {name}: unlike one thread");
    }
}

#[test]
fn every_choice_is_multiplied_by_its_experts_matrix() {
    for (i, case) in cases().into_iter().enumerate() {
        let (format, cols, outputs) = (FORMATS[i % FORMATS.len()], 256, [1, 33, 64, 130][i % 4]);
        let mut random = Random(i as u64);
        let tensor = random.matrix(format, case.router.experts * outputs, cols);
        for rows in [case.rows, case.rows * case.router.used] {
            let x = random.floats(rows * cols);
            check(
                &format!("{case:?}, {rows} inputs"),
                format,
                &x,
                |x| products(&mut Reference, &case, &tensor, x),
                |cpu| products(cpu, &case, &tensor, &x),
            );
        }
    }
}

#[test]
fn two_products_are_what_each_is_alone() {
    for (i, case) in cases().into_iter().enumerate() {
        let formats = [FORMATS[i % FORMATS.len()], FORMATS[(i + 1 + i / 6) % FORMATS.len()]];
        let mut random = Random(i as u64);
        let [a, b] = [0, 1].map(|j| random.matrix(formats[j], case.router.experts * [33, 70][j], 256));
        for rows in [case.rows, case.rows * case.router.used] {
            let x = random.floats(rows * 256);
            for (name, cpu) in backends() {
                let apart = two_products(&mut Plain(cpu.clone()), &case, [&a, &b], &x);
                let both = two_products(&mut cpu.clone(), &case, [&a, &b], &x);
                assert_eq!(bits(&both), bits(&apart), "{formats:?}, {name}, {case:?}, {rows} inputs");
            }
        }
    }
}

/// However many rows an expert has, each is as it is alone.
#[test]
fn a_row_does_not_depend_on_the_rows_beside_it() {
    for (i, format) in FORMATS.into_iter().enumerate() {
        let case = Case { rows: 40, steps: 0.0, bias: false, ..cases()[4 * (i % 3)] };
        let router = case.router;
        let (cols, outputs, mut random) = (256, 40, Random(i as u64 + 50));
        let tensor = random.matrix(format, router.experts * outputs, cols);
        let x = random.floats(case.rows * cols);
        for (name, mut cpu) in backends() {
            let all = products(&mut cpu, &case, &tensor, &x);
            // The first row's logits are drawn first: alone it makes the same choice.
            let alone = products(&mut cpu, &Case { rows: 1, ..case }, &tensor, &x[..cols]);
            assert_eq!(bits(&alone), bits(&all[..router.used * outputs]), "{format}, {name}, {case:?}");
        }
    }
}

#[test]
fn biases_weights_and_sums_are_the_reference() {
    for case in cases() {
        for width in [1, 33, 512] {
            let want = summed(&mut Reference, &case, width);
            let mut first = None;
            for (name, mut cpu) in backends() {
                let got = summed(&mut cpu, &case, width);
                let error = nmse(&got, &want);
                assert!(error < 1e-12, "{name}, {case:?}, {width} wide: {error}");
                assert_eq!(*first.get_or_insert_with(|| bits(&got)), bits(&got), "{name}, {case:?}, {width} wide");
            }
        }
    }
}

#[test]
fn heads_have_matrices_of_their_own() {
    for (i, &(rows, heads, blocks, outputs)) in HEADS.iter().enumerate() {
        for format in FORMATS {
            let mut random = Random(i as u64);
            let tensor = random.matrix(format, heads * outputs, blocks * 256);
            let x = random.floats(rows * heads * tensor.cols);
            check(
                &format!("{rows} rows, {heads} heads of {outputs}"),
                format,
                &x,
                |x| per_head(&mut Reference, &tensor, x, heads),
                |cpu| per_head(cpu, &tensor, &x, heads),
            );
        }
    }
}
