//! Operations that take each row, head or element by itself.

use candor_ops::Reference;
use candor_testing::backend::rows::{self, Case, FUNCTIONS, SHAPES, run};
use candor_testing::backend::{Random, bits};
use candor_testing::nmse;

use crate::beside_products;

/// Runs each case on `[rows, heads * dim]` random values everywhere: all of the CPU's ways agree to the bit, each row is
/// as it is alone, and the reference is near.
fn check(cases: Vec<Case>) {
    for (op_name, bound, op) in cases {
        for (i, &(rows, heads, dim)) in SHAPES.iter().enumerate() {
            let seed = i as u64;
            let (width, x) = (heads * dim, Random(seed).floats(rows * heads * dim));
            let want = run(Reference, &x, 0, width, |ops| op(ops, width, dim));
            let mut first = None;
            for (name, cpu) in beside_products() {
                let case = format!("{op_name}, {rows} rows of {heads} x {dim}, {name}, seed {seed}");
                let got = run(cpu.clone(), &x, 0, width, |ops| op(ops, width, dim));
                let error = nmse(&got, &want);
                assert!(error < bound, "{case}: {error}");
                assert_eq!(bits(first.get_or_insert(got.clone())), bits(&got), "{case}: unlike the first backend");
                let t = rows / 2;
                let row = t * width..(t + 1) * width;
                let alone = run(cpu, &x[row.clone()], t, width, |ops| op(ops, width, dim));
                assert_eq!(bits(&alone), bits(&got[row]), "{case}: row {t} alone");
            }
        }
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
fn functions_of_single_numbers() {
    let x = rows::arguments();
    for f in FUNCTIONS {
        let want = run(Reference, &x, 0, 1, |ops| ops.unary(f));
        let mut first = None;
        for (name, cpu) in beside_products() {
            let got = run(cpu, &x, 0, 1, |ops| ops.unary(f));
            assert_eq!(*first.get_or_insert_with(|| bits(&got)), bits(&got), "{f:?}, {name}: unlike the first backend");
            for ((&x, &got), &want) in x.iter().zip(&got).zip(&want) {
                assert!(rows::near(f, x, got, want), "{f:?} of {x}, {name}: {got}, not {want}");
            }
        }
    }
}

/// A mean far from zero: what is left without it is small.
#[test]
fn a_norm_takes_away_a_large_mean() {
    let want = rows::large_mean(Reference);
    for (name, cpu) in beside_products() {
        let error = nmse(&rows::large_mean(cpu), &want);
        assert!(error < 1e-12, "{name}: {error}");
    }
}

#[test]
fn columns_that_are_not_copied_stay() {
    for (name, cpu) in beside_products() {
        assert_eq!(rows::copied_into(cpu), [1.0, 6.0, 7.0, 4.0], "{name}");
    }
}
