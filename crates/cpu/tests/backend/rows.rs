//! Operations that take each row, head or element by itself.

use candor_ops::{Pairing, Prims, Reference, Rope, Step};

use crate::random::Random;
use crate::{backends, bits, floats, nmse, read, upload};

/// `(rows, heads, width of a head)`.
const SHAPES: &[(usize, usize, usize)] =
    &[(1, 1, 2), (1, 3, 10), (2, 4, 64), (3, 2, 33), (7, 5, 48), (33, 8, 16), (130, 9, 64), (300, 4, 128)];

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

/// The operations under test, on whichever backend.
trait Run {
    fn rms_norm(&mut self, w: &[f32], eps: f32);
    fn head_norm(&mut self, w: &[f32], eps: f32);
    fn add_bias(&mut self, bias: &[f32]);
    fn rope(&mut self, rope: &Rope, head_dim: usize);
    fn silu(&mut self);
    fn mul(&mut self);
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

fn run<B: Prims>(mut ops: B, x: &[f32], first: usize, width: usize, op: impl Fn(&mut dyn Run)) -> Vec<f32> {
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
        self.ops.head_norm(&mut self.x, &w, dim, eps);
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
        self.ops.silu(&mut self.x);
    }
    fn mul(&mut self) {
        self.ops.mul(&mut self.x, &self.y);
    }
    fn add(&mut self) {
        self.ops.add(&mut self.x, &self.y);
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
