//! The CPU backend against the reference, against itself with other threads and batches, and against its own fusions.

mod attention;
mod batch;
mod fusions;
mod products;
mod random;
mod rows;

use candor_cpu::{Batching, Cpu, CpuOptions};
use candor_kernels::Kernels;
use candor_ops::{Prims, Step, Tensor};
use candor_quant::Format;

/// Every instruction set that this machine has, each with one, two and five threads. Without kernels for many inputs at
/// once, so that bits do not depend on how many there are; those have tests of their own.
fn backends() -> impl Iterator<Item = (String, Cpu)> {
    let threads = |kernels: &'static Kernels| [1, 2, 5].map(|threads| (kernels, threads));
    Kernels::available().flat_map(threads).map(|(kernels, threads)| {
        (
            format!("{}, {threads} threads", kernels.name),
            Cpu::new(CpuOptions { threads, kernels, batching: Batching::Invariant, ..CpuOptions::default() }),
        )
    })
}

fn floats(rows: usize, cols: usize, values: &[f32]) -> Tensor {
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    Tensor { name: "floats".into(), format: Format::F32, rows, cols, bytes: bytes.into() }
}

/// A buffer with these rows: an embedding of tokens 0, 1, 2, ...
fn upload<B: Prims>(ops: &mut B, width: usize, values: &[f32]) -> B::Buf {
    let rows = values.len() / width;
    // A second row keeps the table a matrix.
    let mut padded = values.to_vec();
    padded.resize((rows + 1) * width, 0.0);
    let table = ops.weight(floats(rows + 1, width, &padded)).expect("floats run everywhere");
    let tokens: Vec<u32> = (0..rows as u32).collect();
    let zeros = vec![0; rows];
    let mut buf = ops.buffer(rows, width);
    ops.embed(&mut buf, &table, &Step { tokens: &tokens, positions: &zeros, sequences: &zeros, outputs: &[] });
    buf
}

fn read<B: Prims>(ops: &mut B, buf: &B::Buf) -> Vec<f32> {
    let (snapshot, mut values) = (ops.snapshot(buf), Vec::new());
    ops.download(&snapshot, &mut values);
    values
}

/// Squared error over squared values.
fn nmse(got: &[f32], want: &[f32]) -> f64 {
    assert_eq!(got.len(), want.len());
    let square = |x: f64| x * x;
    let error: f64 = got.iter().zip(want).map(|(&a, &b)| square(f64::from(a) - f64::from(b))).sum();
    let size: f64 = want.iter().map(|&x| square(f64::from(x))).sum();
    if error == 0.0 { 0.0 } else { error / size }
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}
