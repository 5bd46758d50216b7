//! Speed of the loops over floats on one thread, in the first-level cache: `cargo bench -p candor-kernels --bench loops`.
//!
//! Billions of elements per second, best of many short windows.

use std::hint::black_box;
use std::time::Instant;

use candor_kernels::{Kernels, Q8RowMut};

const COUNT: usize = 2048;
/// A head's dimension: the length of the products in attention.
const HEAD: usize = 64;
/// Scores of a block that a query of a prompt sees, on average, and no whole number of registers.
const ROW: usize = 129;

/// Elements per second of the best of 200 windows of 50 calls, in billions.
fn speed(count: usize, mut call: impl FnMut()) -> f64 {
    let mut least = f64::INFINITY;
    for _ in 0..200 {
        let start = Instant::now();
        for _ in 0..50 {
            call();
        }
        least = least.min(start.elapsed().as_secs_f64() / 50.0);
    }
    count as f64 / least / 1e9
}

fn main() {
    let x: Vec<f32> = (0..COUNT).map(|i| (i as f32 * 0.37).sin()).collect();
    for table in Kernels::available() {
        let f32 = &table.f32;
        let (mut out, mut halves) = (x.clone(), vec![0; COUNT]);
        (f32.to_f16)(&mut halves, &x);
        let (mut quants, mut scales, mut sums) = (vec![0; COUNT], vec![0.0; COUNT / 32], vec![0; COUNT / 16]);
        let report = |name: &str, speed: f64| println!("{:8} {name:12} {speed:8.2} G/s", table.name);
        report("dot", speed(COUNT, || _ = black_box((f32.dot)(black_box(&x), &x))));
        report("dot_f16", speed(COUNT, || _ = black_box((f32.dot_f16)(black_box(&x), &halves))));
        let by_head = || {
            for (x, halves) in x.chunks_exact(HEAD).zip(halves.chunks_exact(HEAD)) {
                black_box((f32.dot_f16)(black_box(x), halves));
            }
        };
        report("dot_f16 x64", speed(COUNT, by_head));
        report("axpy", speed(COUNT, || (f32.axpy)(black_box(&mut out), 1e-9, &x)));
        report("axpy_f16", speed(COUNT, || (f32.axpy_f16)(black_box(&mut out), 1e-9, &halves)));
        report("scale", speed(COUNT, || (f32.scale)(black_box(&mut out), 1.0)));
        report("add", speed(COUNT, || (f32.add)(black_box(&mut out), &x)));
        report("mul", speed(COUNT, || (f32.mul)(black_box(&mut out), black_box(&[1.0; COUNT]))));
        report("max", speed(COUNT, || _ = black_box((f32.max)(black_box(&x)))));
        report("exp_sum", speed(COUNT, || _ = black_box((f32.exp_sum)(black_box(&mut out), 0.5))));
        let by_row = || {
            for x in out.chunks_mut(ROW) {
                black_box((f32.exp_sum)(black_box(x), 0.5));
            }
        };
        report("exp_sum x129", speed(COUNT, by_row));
        report("rms_norm", speed(COUNT, || (f32.rms_norm)(black_box(&mut out), &x, &x, 1e-5)));
        report("silu", speed(COUNT, || (f32.silu)(black_box(&mut out))));
        report("swiglu", speed(COUNT, || (f32.swiglu)(black_box(&mut out), black_box(&[1.0; COUNT]))));
        report("to_f16", speed(COUNT, || (f32.to_f16)(black_box(&mut halves), &x)));
        let quantize = || {
            let out = Q8RowMut { quants: &mut quants, scales: &mut scales, sums: &mut sums };
            (f32.quantize_q8)(black_box(out), &x);
        };
        report("quantize_q8", speed(COUNT, quantize));
    }
}
