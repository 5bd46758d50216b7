//! Operations that take each row, head or element by itself.

use candor_ops::{Columns, Norm, NormKind, Pairing, Prims, Reference, Rope, Step, Unary};
use candor_testing::backend::rows::{Run, SHAPES, run};
use candor_testing::backend::{Random, bits, floats, read, upload};
use candor_testing::nmse;

use crate::{sound, vector_backends};

/// Runs `op` on random rows here and on the reference; a row is as it is alone.
fn check(op_name: &str, bound: f64, op: impl Fn(&mut dyn Run, usize, usize)) {
    for (name, mut gpu) in vector_backends() {
        for (i, &(rows, heads, dim)) in SHAPES.iter().enumerate() {
            let case = format!("{op_name}, {rows} rows of {heads} x {dim}, {name}, seed {i}");
            let (width, x) = (heads * dim, Random(i as u64).floats(rows * heads * dim));
            let want = run(Reference, &x, 0, width, |ops| op(ops, width, dim));
            let got = run(gpu.clone(), &x, 0, width, |ops| op(ops, width, dim));
            let error = nmse(&got, &want);
            assert!(error < bound, "{case}: {error}");
            let t = rows / 2;
            let row = t * width..(t + 1) * width;
            let alone = run(gpu.clone(), &x[row.clone()], t, width, |ops| op(ops, width, dim));
            assert_eq!(bits(&alone), bits(&got[row]), "{case}: row {t} alone");
        }
        sound(&mut gpu);
    }
}

#[test]
fn rms_norm() {
    check("rms_norm", 1e-12, |ops, width, _| ops.rms_norm(&Random(90).floats(width), 1e-5));
}

#[test]
fn head_norm() {
    check("head_norm", 1e-12, |ops, _, dim| ops.head_norm(&Random(91).floats(dim), 1e-6));
}

#[test]
fn rope() {
    for pairing in [Pairing::Norm, Pairing::Neox] {
        for (share, magnitude) in [(2, 1.0), (4, 1.25)] {
            check(&format!("rope {pairing:?}, 1/{share} of a head"), 1e-12, |ops, _, dim| {
                let frequencies = (0..dim / share).map(|i| 10_000f64.powf(-2.0 * i as f64 / dim as f64)).collect();
                ops.rope(&Rope { pairing, frequencies, magnitude }, dim);
            });
        }
    }
}

#[test]
fn elementwise() {
    check("silu", 1e-11, |ops, _, _| ops.silu());
    check("mul", f64::MIN_POSITIVE, |ops, _, _| ops.mul());
    check("add", f64::MIN_POSITIVE, |ops, _, _| ops.add());
    check("add_bias", f64::MIN_POSITIVE, |ops, width, _| ops.add_bias(&Random(92).floats(width)));
}

#[test]
fn rows_from_elsewhere_go_on() {
    for (name, mut gpu) in vector_backends() {
        for width in [16, 30] {
            let values = Random(3).floats(4 * width);
            let mut x = gpu.buffer(5, width);
            gpu.upload(&mut x, &values, &Step { tokens: &[0; 4], ..Step::default() });
            let y = upload(&mut gpu, width, &values);
            gpu.add(&mut x, &y);
            gpu.upload(&mut x, &values[width..], &Step { tokens: &[0; 3], ..Step::default() });
            gpu.add(&mut x, &y);
            let want: Vec<f32> = (0..3 * width).map(|i| values[width + i] + values[i]).collect();
            assert_eq!(bits(&read(&mut gpu, &x)), bits(&want), "{name}, {width}");
        }
        sound(&mut gpu);
    }
}

#[test]
fn norms_of_runs() {
    for kind in [NormKind::Rms, NormKind::Layer, NormKind::L2] {
        // Weights and a bias: none, of a run, of a row.
        for (weight, bias) in [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (1, 2), (2, 2)] {
            check(&format!("{kind:?}, weight {weight}, bias {bias}"), 1e-12, |ops, width, dim| {
                let drawn = |which: usize, seed| (which > 0).then(|| Random(seed).floats([dim, width][which - 1]));
                let (weight, bias) = (drawn(weight, 93), drawn(bias, 94));
                ops.norm(Norm { kind, run: dim, eps: 1e-5 }, weight.as_deref(), bias.as_deref());
            });
        }
    }
}

/// A mean far from zero: what is left without it is small.
#[test]
fn a_norm_takes_away_a_large_mean() {
    let x: Vec<f32> = Random(95).floats(3 * 200).iter().map(|x| 1000.0 + x * 0.1).collect();
    let norm = |ops: &mut dyn Run| ops.norm(Norm { kind: NormKind::Layer, run: 200, eps: 1e-5 }, None, None);
    let want = run(Reference, &x, 0, 200, norm);
    for (name, gpu) in vector_backends() {
        let error = nmse(&run(gpu, &x, 0, 200, norm), &want);
        assert!(error < 1e-12, "{name}: {error}");
    }
}

#[test]
fn columns_and_groups() {
    check("copy of a run", f64::MIN_POSITIVE, |ops, width, dim| ops.copy(Columns::run(dim, width - dim, 0)));
    check("copy of halves of heads", f64::MIN_POSITIVE, |ops, width, dim| {
        let (groups, half) = (width / dim, dim / 2);
        ops.copy(Columns { groups, len: half, from: (dim - half, dim), to: (0, half) });
    });
    check("copy of a run to all heads", f64::MIN_POSITIVE, |ops, width, dim| {
        ops.copy(Columns { groups: width / dim, len: dim, from: (0, 0), to: (0, dim) });
    });
    check("add_positions", f64::MIN_POSITIVE, |ops, width, _| ops.add_positions(&Random(96).floats(1000 * width)));
    check("mul_columns", f64::MIN_POSITIVE, |ops, width, _| ops.mul_columns(&Random(97).floats(width)));
    check("mul_groups", f64::MIN_POSITIVE, |ops, width, dim| ops.mul_groups(width / dim));
    check("mul_groups by one", f64::MIN_POSITIVE, |ops, _, _| ops.mul_groups(1));
    check("dot_groups", 1e-12, |ops, width, dim| ops.dot_groups(width / dim));
}

/// Every function, with the parameters of models that have them.
const FUNCTIONS: [Unary; 16] = [
    Unary::Silu,
    Unary::Gelu,
    Unary::GeluErf,
    Unary::GeluQuick,
    Unary::Relu,
    Unary::ReluSquared,
    Unary::Sigmoid,
    Unary::Tanh,
    Unary::Softplus,
    Unary::Exp,
    Unary::Affine { scale: 0.3, offset: -1.7 },
    Unary::Clamp { low: -0.5, high: 0.7 },
    Unary::SoftCap(30.0),
    Unary::SoftCap(0.5),
    Unary::Xielu { negative: 0.7, positive: 0.9, beta: 0.5, eps: -1e-6 },
    Unary::Xielu { negative: 1.2, positive: 0.3, beta: 0.5, eps: -1e-3 },
];

#[test]
fn functions_of_rows() {
    for f in FUNCTIONS {
        check(&format!("{f:?}"), 1e-12, |ops, _, _| ops.unary(f));
    }
}

/// Rows are filled up with zeros, on which products rely, whatever a function makes of zero.
#[test]
fn a_function_leaves_what_fills_a_row_up() {
    for (name, mut gpu) in vector_backends() {
        for width in [1, 15, 30] {
            let mut x = upload(&mut gpu, width, &vec![0.5; 3 * width]);
            gpu.unary(&mut x, Unary::Affine { scale: 0.0, offset: 1.0 });
            let ones = gpu.weight(floats(1, width.next_multiple_of(16), &vec![1.0; width.next_multiple_of(16)]));
            let mut sums = gpu.buffer(3, 1);
            gpu.matmul(&mut sums, &x, &ones.expect("floats run"));
            assert_eq!(read(&mut gpu, &sums), [width as f32; 3], "{name}, {width}");
        }
    }
}

/// Arguments of all sizes, both signs, and the ends: each value by itself is near, not only the large ones.
#[test]
fn functions_of_single_numbers() {
    let sizes = (-30..=12).flat_map(|i| [1.0, 1.3, 1.7].map(|x| x * 2f32.powi(i)));
    let mut x: Vec<f32> = sizes.flat_map(|x| [x, -x]).collect();
    x.extend((-2000..2000).map(|i| i as f32 / 50.0 + 0.003));
    let ends = [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, f32::MIN, 1e-40, -1e-40];
    x.extend(ends);
    // WGSL lets devices take subnormal numbers for zeros, and some do.
    let flushed: Vec<f32> = x.iter().map(|&x| if x.is_subnormal() { 0.0 } else { x }).collect();
    for f in FUNCTIONS {
        let [want, want_flushed] = [&x, &flushed].map(|x| run(Reference, x, 0, 1, |ops| ops.unary(f)));
        for (name, gpu) in vector_backends() {
            let got = run(gpu, &x, 0, 1, |ops| ops.unary(f));
            for (((&x, &got), &want), &want_flushed) in x.iter().zip(&got).zip(&want).zip(&want_flushed) {
                // Relative, and near where terms cancel.
                let cancels = if matches!(f, Unary::Affine { .. } | Unary::Xielu { .. }) { 1.0 } else { 0.0 };
                // The reference's own sums near zero are no better than f64.
                let wide = f64::EPSILON * f64::from(x).abs() + 2e-38 * f64::from(x).abs().max(1.0);
                let near = [want, want_flushed].into_iter().any(|want| {
                    let bound = 4e-6 * f64::from(want).abs() + 1e-7 * cancels + wide;
                    (f64::from(got) - f64::from(want)).abs() <= bound
                });
                // The formula's difference of two infinities is not computed.
                let endless = matches!(f, Unary::Xielu { .. }) && x == f32::NEG_INFINITY;
                let same = got == want || got.is_nan() && want.is_nan() || endless;
                assert!(near || same, "{f:?} of {x}, {name}: {got}, not {want}");
            }
        }
    }
}

/// As [`Run::copy`] goes into a buffer that has rows already: columns that are not named stay.
#[test]
fn columns_that_are_not_copied_stay() {
    for (name, mut gpu) in vector_backends() {
        let (mut out, x) = (upload(&mut gpu, 4, &[1.0, 2.0, 3.0, 4.0]), upload(&mut gpu, 3, &[5.0, 6.0, 7.0]));
        gpu.copy(&mut out, &x, Columns::run(2, 1, 1));
        assert_eq!(read(&mut gpu, &out), [1.0, 6.0, 7.0, 4.0], "{name}");
    }
}
