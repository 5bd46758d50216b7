//! Operations that take each row, head or element by itself, on random rows.

use candor_ops::{Norm, NormKind, Prims, Rope, Step, Unary};

use super::{floats, read, upload};

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
}

struct Bench<B: Prims> {
    ops: B,
    x: B::Buf,
    /// Another buffer of the same shape: `x` turned around.
    y: B::Buf,
    rows: usize,
    first: usize,
}

/// What `op` makes of the rows of `x`, the first of which has number `first`.
pub fn run<B: Prims>(mut ops: B, x: &[f32], first: usize, width: usize, op: impl Fn(&mut dyn Run)) -> Vec<f32> {
    let turned: Vec<f32> = x.chunks(width).flat_map(|row| row.iter().rev().copied()).collect();
    let (x, y, rows) = (upload(&mut ops, width, x), upload(&mut ops, width, &turned), x.len() / width);
    let mut bench = Bench { ops, x, y, rows, first };
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
        let positions: Vec<u32> = (0..self.rows).map(|t| ((self.first + t) * 37 % 1000) as u32).collect();
        let step = Step { tokens: &[], positions: &positions, sequences: &[], outputs: &[] };
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
}
