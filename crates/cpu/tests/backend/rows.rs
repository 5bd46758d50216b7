//! Operations that take each row, head or element by itself.

use candor_ops::{Pairing, Reference, Rope};
use candor_testing::backend::rows::{Run, SHAPES, run};
use candor_testing::backend::{Random, bits};
use candor_testing::nmse;

use crate::backends;

/// Runs `op` on `[rows, heads * dim]` random values everywhere: all of the CPU's ways agree to the bit, each row is as
/// it is alone, and the reference is near.
fn check(op_name: &str, bound: f64, op: impl Fn(&mut dyn Run, usize, usize)) {
    for (i, &(rows, heads, dim)) in SHAPES.iter().enumerate() {
        let seed = i as u64;
        let (width, x) = (heads * dim, Random(seed).floats(rows * heads * dim));
        let want = run(Reference, &x, 0, width, |ops| op(ops, width, dim));
        let mut first = None;
        for (name, cpu) in backends() {
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
    check("silu", 1e-12, |ops, _, _| ops.silu());
    check("mul", f64::MIN_POSITIVE, |ops, _, _| ops.mul());
    check("add", f64::MIN_POSITIVE, |ops, _, _| ops.add());
    check("add_bias", f64::MIN_POSITIVE, |ops, width, _| ops.add_bias(&Random(92).floats(width)));
}
