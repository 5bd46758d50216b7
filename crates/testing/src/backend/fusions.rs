//! Every fusion on random weights.

use candor_ops::{Ops, Tensor};
use candor_quant::Format;

use super::{Random, read, upload};

/// Columns of every matrix.
pub const WIDTH: usize = 256;
const HEIGHTS: [usize; 3] = [300, 64, 33];

/// A feed-forward block and three projections: every fusion's result.
///
/// # Panics
/// If the backend refuses a format.
pub fn all_fusions<B: Ops>(ops: &mut B, mix: [Format; 3], rows: usize, seed: u64) -> Vec<Vec<f32>> {
    let mut random = Random(seed);
    let mut weight = |ops: &mut B, format, rows, cols| {
        let tensor: Tensor = random.matrix(format, rows, cols);
        ops.weight(tensor).expect("every format runs")
    };
    let [a, b, c] = [0, 1, 2].map(|i| weight(ops, mix[i], HEIGHTS[i], WIDTH));
    let [gate, up, down] = [0, 1, 2].map(|i| weight(ops, mix[i], WIDTH, WIDTH));
    let x = upload(ops, WIDTH, &random.floats(rows * WIDTH));
    let mut out = HEIGHTS.map(|height| ops.buffer(rows, height));
    let [out_a, out_b, out_c] = &mut out;
    ops.matmul3((out_a, &a), (out_b, &b), (out_c, &c), &x);
    let mut results: Vec<Vec<f32>> = out.iter().map(|out| read(ops, out)).collect();
    let (mut g, mut u) = (ops.buffer(rows, WIDTH), ops.buffer(rows, WIDTH));
    ops.matmul2((&mut g, &gate), (&mut u, &up), &x);
    ops.swiglu(&mut g, &u);
    results.push(read(ops, &g));
    let (mut residual, mut product) = (upload(ops, WIDTH, &random.floats(rows * WIDTH)), ops.buffer(rows, WIDTH));
    ops.matmul_add(&mut residual, &g, &down, &mut product);
    results.push(read(ops, &residual));
    ops.gated_add(&mut residual, &x, [&gate, &up, &down], [&mut g, &mut u, &mut product]);
    results.push(read(ops, &residual));
    results
}
