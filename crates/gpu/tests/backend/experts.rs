//! Mixtures of experts, and products per head.

use std::collections::HashMap;

use candor_gpu::Gpu;
use candor_ops::{Gate, Plain, Prims, Reference, Router, Tensor};
use candor_quant::Format;
use candor_testing::backend::experts::{Case, HEADS, cases, choices, per_head, products, routes, summed, two_products};
use candor_testing::backend::{Random, bits, read, upload};
use candor_testing::nmse;

use crate::products::{as_halves, in_bytes, in_halves};
use crate::{backends, differs, of_kind, options, sound, vector_backends};

/// As many as have no divisor in common with the numbers of rows and of outputs, which change from case to case too.
const FORMATS: [Format; 11] = [
    Format::F32,
    Format::Q4K,
    Format::Q8_0,
    Format::Bf16,
    Format::Mxfp4,
    Format::Q4_0,
    Format::Nvfp4,
    Format::Iq2Xxs,
    Format::Iq3S,
    Format::Iq1M,
    Format::Tq1_0,
];

/// Choices of an expert, on average, or rows of a head, up to which they are taken for rows that decode.
const MANY: usize = 8;

#[test]
fn choices_are_the_reference() {
    for (name, mut gpu) in vector_backends() {
        for case in cases() {
            let (experts, weights) = choices(&mut Reference, &case);
            let got = choices(&mut gpu, &case);
            assert_eq!(got.0, experts, "{name}, {case:?}");
            let error = nmse(&got.1, &weights);
            assert!(error < 1e-12, "{name}, {case:?}: {error}");
        }
        sound(&mut gpu);
    }
}

/// One expert after the other, each weighed among those near it.
#[test]
fn a_mixer_takes_one_after_the_other() {
    for (name, mut gpu) in vector_backends() {
        for (i, rows) in [1, 7, 50].into_iter().enumerate() {
            let gate = Gate::SparseMixer([0.02, 0.5, 0.9][i]);
            let router = Router { experts: 16, used: 2, gate, groups: (1, 1), normalized: false, scale: 1.0 };
            let case = Case { router, rows, bias: false, steps: 0.0, seed: i as u64 };
            let (experts, weights) = choices(&mut Reference, &case);
            let got = choices(&mut gpu, &case);
            assert_eq!(got.0, experts, "{name}, {case:?}");
            let error = nmse(&got.1, &weights);
            assert!(error < 1e-12, "{name}, {case:?}: {error}");
        }
        sound(&mut gpu);
    }
}

#[test]
fn what_was_chosen_is_read_back() {
    for (name, mut gpu) in vector_backends() {
        for case in cases().into_iter().filter(|case| case.steps == 0.0) {
            let (mut want, mut got) = (Vec::new(), Vec::new());
            let chosen = routes(&mut Reference, &case);
            let chosen = Reference.choices(&chosen);
            Reference.chosen(&chosen, &mut want);
            let chosen = routes(&mut gpu, &case);
            let chosen = gpu.choices(&chosen);
            gpu.chosen(&chosen, &mut got);
            let near = |(a, b): (&(u32, f32), &(u32, f32))| a.0 == b.0 && (a.1 - b.1).abs() <= 1e-6 * b.1.abs();
            assert!(got.len() == want.len() && got.iter().zip(&want).all(near), "{name}, {case:?}: {got:?}, {want:?}");
        }
        sound(&mut gpu);
    }
}

#[test]
fn too_many_experts_or_choices_are_told() {
    let Some(options) = options() else { return };
    for (experts, rows, told) in [
        (2000, 1, "route: expected at most 1024 experts, got 2000"),
        (2, 32768, "route: expected at most 65535 choices in a step, got 65536 (fewer tokens)"),
    ] {
        let mut gpu = Gpu::new(&options).expect("the adapter opens");
        let gate = Gate::Softmax;
        let router = Router { experts, used: 2, gate, groups: (1, 1), normalized: false, scale: 1.0 };
        routes(&mut gpu, &Case { router, rows, bias: false, steps: 0.0, seed: 1 });
        let message = gpu.finish().expect_err("too many").to_string();
        assert!(message.ends_with(told), "{message}");
    }
}

/// How a variant sees weights and inputs, one by one or in tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Seen {
    Exact,
    Bytes,
    Halves,
}

fn seen(gpu: &Gpu, format: Format, is_few: bool) -> Seen {
    let wide = matches!(format, Format::F32 | Format::Bf16);
    let cooperative = gpu.variant().cooperative.is_some();
    match is_few {
        _ if gpu.variant().int8_dot && format.block_len() > 1 && (is_few || !cooperative) => Seen::Bytes,
        false if (gpu.variant().f16 || cooperative) && !wide => Seen::Halves,
        _ => Seen::Exact,
    }
}

/// What all devices make of a product, against the reference on weights and inputs as they see them.
fn check<'a>(
    gpus: impl Iterator<Item = &'a mut (String, Gpu)>,
    (what, is_few): (&str, bool),
    (tensor, x): (&Tensor, &[f32]),
    mut want: impl FnMut(&Tensor, &[f32]) -> Vec<f32>,
    mut got: impl FnMut(&mut Gpu) -> Vec<f32>,
) {
    let mut wanted: HashMap<Seen, Vec<f32>> = HashMap::new();
    for (name, gpu) in gpus {
        let seen = seen(gpu, tensor.format, is_few);
        let want = wanted.entry(seen).or_insert_with(|| match seen {
            Seen::Exact => want(tensor, x),
            Seen::Bytes => want(tensor, &in_bytes(x)),
            Seen::Halves => want(&in_halves(tensor), &as_halves(x)),
        });
        let error = nmse(&of_kind(is_few, || got(gpu)), want);
        assert!(error < 1e-11, "{name}, {}, {what}: {error}", tensor.name);
        sound(gpu);
    }
}

#[test]
fn every_choice_is_multiplied_by_its_experts_matrix() {
    let mut gpus = backends();
    let mut sorted = 0;
    for (i, case) in cases().into_iter().enumerate() {
        let (format, cols, outputs) = (FORMATS[i % FORMATS.len()], 256, [1, 33, 64, 70][i % 4]);
        let mut random = Random(i as u64);
        let Router { experts, used, .. } = case.router;
        let tensor = random.matrix(format, experts * outputs, cols);
        let is_few = case.rows * used <= MANY * experts;
        sorted += usize::from(!is_few);
        // A row for each token, or for each choice.
        let rows = if i % 2 == 0 { case.rows } else { case.rows * used };
        let x = random.floats(rows * cols);
        check(
            gpus.iter_mut().filter(|(_, gpu)| differs(gpu, is_few)),
            (&format!("{case:?}, {rows} inputs"), is_few),
            (&tensor, &x),
            |tensor, x| products(&mut Reference, &case, tensor, x),
            |gpu| products(gpu, &case, &tensor, &x),
        );
    }
    assert!(sorted >= 4, "{sorted} of the cases are many choices of few experts");
}

/// Short rows and many, so that tiles are full, begun, and left empty.
#[test]
fn many_choices_are_sorted_by_their_experts() {
    for (name, mut gpu) in vector_backends() {
        for (i, (experts, used, rows)) in [(2, 1, 130), (3, 2, 200), (8, 8, 65), (40, 5, 90)].into_iter().enumerate() {
            let gate = Gate::SoftmaxOfChosen;
            let router = Router { experts, used, gate, groups: (1, 1), normalized: false, scale: 1.0 };
            let case = Case { router, rows, bias: false, steps: 0.0, seed: i as u64 };
            let mut random = Random(i as u64);
            let tensor = random.matrix(Format::F32, experts * 70, [33, 16, 5, 48][i]);
            let x = random.floats(rows * tensor.cols);
            let error = nmse(&products(&mut gpu, &case, &tensor, &x), &products(&mut Reference, &case, &tensor, &x));
            assert!(error < 1e-11, "{name}, {case:?}: {error}");
        }
        sound(&mut gpu);
    }
}

#[test]
fn experts_are_split_by_rows_where_a_buffer_is_too_small() {
    let Some(options) = options() else { return };
    // Fifteen rows of Q8_0 and four of F32: parts end within experts.
    let options = options.part_bytes(4096);
    let mut gpus = [("parts".to_owned(), Gpu::new(&options).expect("the adapter opens"))];
    for (i, case) in cases().into_iter().enumerate().filter(|(_, case)| case.router.experts <= 8) {
        let format = [Format::Q8_0, Format::F32][i % 2];
        let mut random = Random(i as u64);
        let Router { experts, used, .. } = case.router;
        let tensor = random.matrix(format, experts * 37, 256);
        let x = random.floats(case.rows * 256);
        check(
            gpus.iter_mut(),
            (&format!("{case:?}"), case.rows * used <= MANY * experts),
            (&tensor, &x),
            |tensor, x| products(&mut Reference, &case, tensor, x),
            |gpu| products(gpu, &case, &tensor, &x),
        );
        let error = nmse(&summed(&mut gpus[0].1, &case, 600), &summed(&mut Reference, &case, 600));
        assert!(error < 1e-12, "{case:?}: {error}");
    }
}

#[test]
fn two_products_are_what_each_is_alone() {
    for (name, gpu) in backends() {
        for (i, case) in cases().into_iter().enumerate().filter(|(i, _)| i % 5 == 0) {
            let formats = [FORMATS[i % FORMATS.len()], FORMATS[(i + 1 + i / 6) % FORMATS.len()]];
            let mut random = Random(i as u64);
            let [a, b] = [0, 1].map(|j| random.matrix(formats[j], case.router.experts * [33, 70][j], 256));
            let x = random.floats(case.rows * 256);
            for few in [false, true].into_iter().filter(|&few| differs(&gpu, few)) {
                let apart = of_kind(few, || two_products(&mut Plain(gpu.clone()), &case, [&a, &b], &x));
                let both = of_kind(few, || two_products(&mut gpu.clone(), &case, [&a, &b], &x));
                assert_eq!(bits(&both), bits(&apart), "{formats:?}, {name}, {case:?}, few: {few}");
            }
        }
    }
}

#[test]
fn biases_weights_and_sums_are_the_reference() {
    for (name, mut gpu) in vector_backends() {
        for case in cases() {
            for width in [1, 33, 512] {
                let error = nmse(&summed(&mut gpu, &case, width), &summed(&mut Reference, &case, width));
                assert!(error < 1e-12, "{name}, {case:?}, {width} wide: {error}");
            }
        }
        sound(&mut gpu);
    }
}

fn biased<B: Prims>(ops: &mut B, case: &Case, bias: &Tensor) -> Vec<f32> {
    let routes = routes(ops, case);
    let bias = ops.weight(bias.clone()).expect("every format runs");
    let mut x = upload(ops, 256, &vec![0.0; case.rows * case.router.used * 256]);
    ops.add_bias_experts(&mut x, &bias, &routes);
    read(ops, &x)
}

/// Small matrices become floats on the device.
#[test]
fn biases_may_have_any_format() {
    let case = cases()[5];
    for (name, mut gpu) in vector_backends() {
        for format in FORMATS {
            let bias = Random(3).matrix(format, case.router.experts, 256);
            let error = nmse(&biased(&mut gpu, &case, &bias), &biased(&mut Reference, &case, &bias));
            assert!(error < 1e-14, "{name}, {}: {error}", bias.name);
        }
        sound(&mut gpu);
    }
}

#[test]
fn heads_have_matrices_of_their_own() {
    let mut gpus = backends();
    for (i, &(rows, heads, blocks, outputs)) in HEADS.iter().enumerate() {
        for format in [FORMATS[i % FORMATS.len()], FORMATS[(i + 5) % FORMATS.len()]] {
            let mut random = Random(i as u64);
            let tensor = random.matrix(format, heads * outputs, blocks * 256);
            let x = random.floats(rows * heads * tensor.cols);
            check(
                gpus.iter_mut().filter(|(_, gpu)| differs(gpu, rows <= MANY)),
                (&format!("{rows} rows, {heads} heads"), rows <= MANY),
                (&tensor, &x),
                |tensor, x| per_head(&mut Reference, tensor, x, heads),
                |gpu| per_head(gpu, &tensor, &x, heads),
            );
        }
    }
}

#[test]
fn heads_need_no_whole_vectors() {
    for (name, mut gpu) in vector_backends() {
        for (i, (rows, heads, cols)) in [(1, 3, 5), (4, 2, 24), (20, 5, 17), (9, 7, 1)].into_iter().enumerate() {
            let mut random = Random(i as u64);
            let tensor = random.matrix(Format::F32, heads * 19, cols);
            let mut x = random.floats(rows * heads * cols);
            let case = format!("{name}, {rows} rows, {heads} heads, {cols} columns");
            let few = rows <= MANY;
            let good = of_kind(few, || per_head(&mut gpu, &tensor, &x, heads));
            let error = nmse(&good, &per_head(&mut Reference, &tensor, &x, heads));
            assert!(error < 1e-11, "{case}: {error}");
            // What is no number is one head's alone.
            x.chunks_exact_mut(heads * cols).for_each(|row| row[cols] = f32::NAN);
            let spoilt = of_kind(few, || per_head(&mut gpu, &tensor, &x, heads));
            for (good, spoilt) in good.chunks_exact(19).zip(spoilt.chunks_exact(19)).step_by(heads) {
                assert_eq!(bits(spoilt), bits(good), "{case}: the first head");
            }
        }
        sound(&mut gpu);
    }
}
