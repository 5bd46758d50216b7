//! Operations that take each row, head or element by itself.

use candor_ops::{Ops, Pairing, Prims, Reference, Rope};
use candor_testing::backend::rows::{Run, SHAPES, run};
use candor_testing::backend::{Random, bits, read, upload};
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
fn the_greatest_element_is_found() {
    for (name, mut gpu) in vector_backends() {
        for width in [1, 2, 63, 255, 256, 257, 5000] {
            let mut values = Random(width as u64).floats(3 * width);
            // Equals: the first counts.
            for at in [width / 3, width / 2, width - 1] {
                values[width + at] = 100.0;
            }
            values[2 * width..].fill(-3.0e38);
            let want = |ops: &mut Reference| {
                let (x, mut out) = (upload(ops, width, &values), Vec::new());
                ops.argmax(&x, width, &mut out);
                out
            };
            let (x, mut got) = (upload(&mut gpu, width, &values), Vec::new());
            let before = gpu.counters().bytes_read;
            gpu.argmax(&x, width, &mut got);
            assert_eq!(got, want(&mut Reference), "{name}, {width}");
            assert_eq!(got[1..], [(width / 3) as u32, 0], "{name}, {width}");
            assert_eq!(gpu.counters().bytes_read - before, 12, "{name}");
        }
        sound(&mut gpu);
    }
}

#[test]
fn rows_from_elsewhere_go_on() {
    for (name, mut gpu) in vector_backends() {
        for width in [16, 30] {
            let values = Random(3).floats(4 * width);
            let mut x = gpu.buffer(5, width);
            gpu.upload(&mut x, 4, &values);
            let y = upload(&mut gpu, width, &values);
            gpu.add(&mut x, &y);
            gpu.upload(&mut x, 3, &values[width..]);
            gpu.add(&mut x, &y);
            let want: Vec<f32> = (0..3 * width).map(|i| values[width + i] + values[i]).collect();
            assert_eq!(bits(&read(&mut gpu, &x)), bits(&want), "{name}, {width}");
        }
        sound(&mut gpu);
    }
}
