//! Operations that take each row, head or element by itself.

use candor_ops::{Prims, Reference, Step, Unary};
use candor_testing::backend::rows::{self, Case, FUNCTIONS, SHAPES, run};
use candor_testing::backend::{Random, bits, floats, read, upload};
use candor_testing::nmse;

use crate::{sound, vector_backends};

/// Runs each case on random rows here and on the reference; a row is as it is alone.
fn check(cases: Vec<Case>) {
    for (name, mut gpu) in vector_backends() {
        for (op_name, bound, op) in &cases {
            for (i, &(rows, heads, dim)) in SHAPES.iter().enumerate() {
                let case = format!("{op_name}, {rows} rows of {heads} x {dim}, {name}, seed {i}");
                let (width, x) = (heads * dim, Random(i as u64).floats(rows * heads * dim));
                let want = run(Reference, &x, 0, width, |ops| op(ops, width, dim));
                let got = run(gpu.clone(), &x, 0, width, |ops| op(ops, width, dim));
                let error = nmse(&got, &want);
                assert!(error < *bound, "{case}: {error}");
                let t = rows / 2;
                let row = t * width..(t + 1) * width;
                let alone = run(gpu.clone(), &x[row.clone()], t, width, |ops| op(ops, width, dim));
                assert_eq!(bits(&alone), bits(&got[row]), "{case}: row {t} alone");
            }
        }
        sound(&mut gpu);
    }
}

#[test]
fn norms() {
    check(rows::norms());
}

#[test]
fn rotations() {
    check(rows::rotations());
}

#[test]
fn elements() {
    check(rows::elements());
}

#[test]
fn columns_and_groups() {
    check(rows::columns_and_groups());
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

#[test]
fn functions_of_single_numbers() {
    let x = rows::arguments();
    // WGSL lets devices take subnormal numbers for zeros, and some do.
    let flushed: Vec<f32> = x.iter().map(|&x| if x.is_subnormal() { 0.0 } else { x }).collect();
    for f in FUNCTIONS {
        let [want, want_flushed] = [&x, &flushed].map(|x| run(Reference, x, 0, 1, |ops| ops.unary(f)));
        for (name, gpu) in vector_backends() {
            let got = run(gpu, &x, 0, 1, |ops| ops.unary(f));
            for (((&x, &got), &want), &want_flushed) in x.iter().zip(&got).zip(&want).zip(&want_flushed) {
                // The formula's difference of two infinities is not computed.
                let endless = matches!(f, Unary::Xielu { .. }) && x == f32::NEG_INFINITY;
                let near = rows::near(f, x, got, want) || rows::near(f, x, got, want_flushed);
                assert!(near || endless, "{f:?} of {x}, {name}: {got}, not {want}");
            }
        }
    }
}

/// A mean far from zero: what is left without it is small.
#[test]
fn a_norm_takes_away_a_large_mean() {
    let want = rows::large_mean(Reference);
    for (name, gpu) in vector_backends() {
        let error = nmse(&rows::large_mean(gpu), &want);
        assert!(error < 1e-12, "{name}: {error}");
    }
}

#[test]
fn columns_that_are_not_copied_stay() {
    for (name, gpu) in vector_backends() {
        assert_eq!(rows::copied_into(gpu), [1.0, 6.0, 7.0, 4.0], "{name}");
    }
}
