//! Products and embeddings of random matrices.

use candor_ops::{Prims, Step, Tensor};

use super::{read, upload};

/// `(input rows, columns in blocks of 256, weight rows)`.
pub const SHAPES: &[(usize, usize, usize)] =
    &[(1, 1, 1), (1, 2, 17), (1, 5, 300), (2, 1, 16), (3, 3, 33), (7, 1, 5), (33, 2, 70), (130, 1, 129), (110, 20, 9)];

/// `tensor @ x`, all rows of it.
///
/// # Panics
/// If the backend refuses the tensor.
pub fn product<B: Prims>(ops: &mut B, tensor: &Tensor, x: &[f32]) -> Vec<f32> {
    let w = ops.weight(tensor.clone()).expect("every format runs");
    let x = upload(ops, tensor.cols, x);
    let mut out = ops.buffer(200, tensor.rows);
    ops.matmul(&mut out, &x, &w);
    read(ops, &out)
}

/// The rows of a table that a step of four tokens asks for.
///
/// # Panics
/// If the backend refuses the table.
pub fn embedded<B: Prims>(ops: &mut B, table: &Tensor, step: &Step) -> Vec<f32> {
    let (w, mut out) = (ops.weight(table.clone()).expect("every format runs"), ops.buffer(4, table.cols));
    ops.embed(&mut out, &w, step);
    read(ops, &out)
}
