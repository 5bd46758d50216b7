//! Operations that take each row, head or element by itself, on random rows.

use candor_ops::{Columns, Norm, NormKind, Prims, Rope, Step, Unary};

use super::{floats, of_kind, read, upload};

/// `(rows, heads, width of a head)`.
pub const SHAPES: &[(usize, usize, usize)] =
    &[(1, 1, 2), (1, 3, 10), (2, 4, 64), (3, 2, 33), (7, 5, 48), (33, 8, 16), (130, 9, 64), (300, 4, 128)];

/// The operations under test, on whichever backend.
pub trait Run {
    /// RMS norm of the second buffer.
    fn rms_norm(&mut self, w: &[f32], eps: f32);
    /// RMS norm of heads as wide as `w`.
    fn head_norm(&mut self, w: &[f32], eps: f32);
    /// Adds the bias.
    fn add_bias(&mut self, bias: &[f32]);
    /// Rotates.
    fn rope(&mut self, rope: &Rope, head_dim: usize);
    /// SiLU.
    fn silu(&mut self);
    /// Times the second buffer.
    fn mul(&mut self);
    /// Plus the second buffer.
    fn add(&mut self);
    /// A norm of runs, with weights and a bias where there are any.
    fn norm(&mut self, norm: Norm, weight: Option<&[f32]>, bias: Option<&[f32]>);
    /// A function of each element.
    fn unary(&mut self, f: Unary);
    /// Columns of the second buffer.
    fn copy(&mut self, columns: Columns);
    /// Adds rows of a table of 1000 positions.
    fn add_positions(&mut self, table: &[f32]);
    /// Times a vector.
    fn mul_columns(&mut self, w: &[f32]);
    /// Each of `groups` groups times a column of the second buffer.
    fn mul_groups(&mut self, groups: usize);
    /// The first columns become the products of `groups` groups of both buffers.
    fn dot_groups(&mut self, groups: usize);
}

struct Bench<B: Prims> {
    ops: B,
    x: B::Buf,
    /// Another buffer of the same shape: `x` turned around.
    y: B::Buf,
    rows: usize,
    first: usize,
    width: usize,
}

impl<B: Prims> Bench<B> {
    fn vector(&mut self, w: &[f32]) -> B::Weight {
        self.ops.weight(floats(1, w.len(), w)).expect("floats run")
    }

    /// Where each row stands; the same for a row alone.
    fn positions(&self) -> Vec<u32> {
        (0..self.rows).map(|t| ((self.first + t) * 37 % 1000) as u32).collect()
    }

    /// The first columns of the second buffer.
    fn columns(&mut self, count: usize) -> B::Buf {
        let mut some = self.ops.buffer(self.rows, count);
        self.ops.copy(&mut some, &self.y, Columns::run(count, 0, 0));
        some
    }
}

/// What `op` makes of the rows of `x`, the first of which has number `first`.
pub fn run<B: Prims>(mut ops: B, x: &[f32], first: usize, width: usize, op: impl Fn(&mut dyn Run)) -> Vec<f32> {
    let turned: Vec<f32> = x.chunks(width).flat_map(|row| row.iter().rev().copied()).collect();
    let (x, y, rows) = (upload(&mut ops, width, x), upload(&mut ops, width, &turned), x.len() / width);
    let mut bench = Bench { ops, x, y, rows, first, width };
    op(&mut bench);
    read(&mut bench.ops, &bench.x)
}

impl<B: Prims> Run for Bench<B> {
    fn rms_norm(&mut self, w: &[f32], eps: f32) {
        let w = self.ops.weight(floats(1, w.len(), w)).expect("floats run");
        self.ops.rms_norm(&mut self.x, &self.y, &w, eps);
    }
    fn head_norm(&mut self, w: &[f32], eps: f32) {
        let dim = w.len();
        let w = self.ops.weight(floats(1, dim, w)).expect("floats run");
        self.ops.norm(&mut self.x, Norm { kind: NormKind::Rms, run: dim, eps }, Some(&w), None);
    }
    fn add_bias(&mut self, bias: &[f32]) {
        let bias = self.ops.weight(floats(1, bias.len(), bias)).expect("floats run");
        self.ops.add_bias(&mut self.x, &bias);
    }
    fn rope(&mut self, rope: &Rope, head_dim: usize) {
        let table = self.ops.rope_table(rope.clone());
        let positions = self.positions();
        let step = Step {
            tokens: &[],
            positions: &positions,
            sequences: &[],
            outputs: &[],
            decoding: of_kind(positions.len()),
        };
        self.ops.rope(&mut self.x, &table, head_dim, &step);
    }
    fn silu(&mut self) {
        self.ops.unary(&mut self.x, Unary::Silu);
    }
    fn mul(&mut self) {
        self.ops.mul(&mut self.x, &self.y);
    }
    fn add(&mut self) {
        self.ops.add(&mut self.x, &self.y);
    }
    fn norm(&mut self, norm: Norm, weight: Option<&[f32]>, bias: Option<&[f32]>) {
        let [weight, bias] = [weight, bias].map(|w| w.map(|w| self.vector(w)));
        self.ops.norm(&mut self.x, norm, weight.as_ref(), bias.as_ref());
    }
    fn unary(&mut self, f: Unary) {
        self.ops.unary(&mut self.x, f);
    }
    fn copy(&mut self, columns: Columns) {
        self.ops.copy(&mut self.x, &self.y, columns);
    }
    fn add_positions(&mut self, table: &[f32]) {
        let table = self.ops.weight(floats(1000, self.width, table)).expect("floats run");
        let positions = self.positions();
        let step = Step {
            tokens: &[],
            positions: &positions,
            sequences: &[],
            outputs: &[],
            decoding: of_kind(positions.len()),
        };
        self.ops.add_positions(&mut self.x, &table, &step);
    }
    fn mul_columns(&mut self, w: &[f32]) {
        let w = self.vector(w);
        self.ops.mul_columns(&mut self.x, &w);
    }
    fn mul_groups(&mut self, groups: usize) {
        let factors = self.columns(groups);
        self.ops.mul_groups(&mut self.x, &factors);
    }
    fn dot_groups(&mut self, groups: usize) {
        let mut out = self.ops.buffer(self.rows, groups);
        self.ops.dot_groups(&mut out, &self.x, &self.y);
        self.ops.copy(&mut self.x, &out, Columns::run(groups, 0, 0));
    }
}
