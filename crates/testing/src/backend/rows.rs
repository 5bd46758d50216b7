//! Operations that take each row, head or element by itself, on random rows.

use candor_ops::{Columns, Norm, NormKind, Pairing, Prims, Rope, Step, Unary};

use super::{Random, floats, of_kind, read, upload};

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

/// Runs an operation on rows of a width and heads of a dimension.
pub type Operation = Box<dyn Fn(&mut dyn Run, usize, usize)>;

/// An operation, its name, and the largest normalised mean squared error that it may have.
pub type Case = (String, f64, Operation);

fn case(name: impl Into<String>, bound: f64, op: impl Fn(&mut dyn Run, usize, usize) + 'static) -> Case {
    (name.into(), bound, Box::new(op))
}

/// Norms of rows, of heads, and of runs with every combination of weights and a bias.
pub fn norms() -> Vec<Case> {
    let mut cases = vec![
        case("rms_norm", 1e-12, |ops, width, _| ops.rms_norm(&Random(90).floats(width), 1e-5)),
        case("head_norm", 1e-12, |ops, _, dim| ops.head_norm(&Random(91).floats(dim), 1e-6)),
    ];
    for kind in [NormKind::Rms, NormKind::Layer, NormKind::L2] {
        // Weights and a bias: none, of a run, of a row.
        for (weight, bias) in [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (1, 2), (2, 2)] {
            cases.push(case(format!("{kind:?}, weight {weight}, bias {bias}"), 1e-12, move |ops, width, dim| {
                let drawn = |which: usize, seed| (which > 0).then(|| Random(seed).floats([dim, width][which - 1]));
                let (weight, bias) = (drawn(weight, 93), drawn(bias, 94));
                ops.norm(Norm { kind, run: dim, eps: 1e-5 }, weight.as_deref(), bias.as_deref());
            }));
        }
    }
    cases
}

/// Rotations of whole heads and of parts, with neighbours and with halves paired.
pub fn rotations() -> Vec<Case> {
    let mut cases = Vec::new();
    for pairing in [Pairing::Norm, Pairing::Neox] {
        for (share, magnitude) in [(2, 1.0), (4, 1.25)] {
            cases.push(case(format!("rope {pairing:?}, 1/{share} of a head"), 1e-12, move |ops, _, dim| {
                let frequencies = (0..dim / share).map(|i| 10_000f64.powf(-2.0 * i as f64 / dim as f64)).collect();
                ops.rope(&Rope { pairing, frequencies, magnitude }, dim);
            }));
        }
    }
    cases
}

/// Sums, products and functions of single elements.
pub fn elements() -> Vec<Case> {
    let mut cases = vec![
        case("silu", 1e-12, |ops, _, _| ops.silu()),
        case("mul", f64::MIN_POSITIVE, |ops, _, _| ops.mul()),
        case("add", f64::MIN_POSITIVE, |ops, _, _| ops.add()),
        case("add_bias", f64::MIN_POSITIVE, |ops, width, _| ops.add_bias(&Random(92).floats(width))),
    ];
    cases.extend(FUNCTIONS.map(|f| case(format!("{f:?}"), 1e-12, move |ops, _, _| ops.unary(f))));
    cases
}

/// Copies of columns, and what is done to columns and groups.
pub fn columns_and_groups() -> Vec<Case> {
    vec![
        case("copy of a run", f64::MIN_POSITIVE, |ops, width, dim| ops.copy(Columns::run(dim, width - dim, 0))),
        case("copy of halves of heads", f64::MIN_POSITIVE, |ops, width, dim| {
            let (groups, half) = (width / dim, dim / 2);
            ops.copy(Columns { groups, len: half, from: (dim - half, dim), to: (0, half) });
        }),
        case("copy of a run to all heads", f64::MIN_POSITIVE, |ops, width, dim| {
            ops.copy(Columns { groups: width / dim, len: dim, from: (0, 0), to: (0, dim) });
        }),
        case("add_positions", f64::MIN_POSITIVE, |ops, width, _| ops.add_positions(&Random(96).floats(1000 * width))),
        case("mul_columns", f64::MIN_POSITIVE, |ops, width, _| ops.mul_columns(&Random(97).floats(width))),
        case("mul_groups", f64::MIN_POSITIVE, |ops, width, dim| ops.mul_groups(width / dim)),
        case("mul_groups by one", f64::MIN_POSITIVE, |ops, _, _| ops.mul_groups(1)),
        case("dot_groups", 1e-12, |ops, width, dim| ops.dot_groups(width / dim)),
    ]
}

/// Every function, with the parameters of models that have them.
pub const FUNCTIONS: [Unary; 16] = [
    Unary::Silu,
    Unary::Gelu,
    Unary::GeluErf,
    Unary::GeluQuick,
    Unary::Relu,
    Unary::ReluSquared,
    Unary::Sigmoid,
    Unary::Tanh,
    Unary::Softplus,
    Unary::Exp,
    Unary::Affine { scale: 0.3, offset: -1.7 },
    Unary::Clamp { low: -0.5, high: 0.7 },
    Unary::SoftCap(30.0),
    Unary::SoftCap(0.5),
    Unary::Xielu { negative: 0.7, positive: 0.9, beta: 0.5, eps: -1e-6 },
    Unary::Xielu { negative: 1.2, positive: 0.3, beta: 0.5, eps: -1e-3 },
];

/// Arguments of all sizes, both signs, and the ends.
pub fn arguments() -> Vec<f32> {
    let sizes = (-30..=12).flat_map(|i| [1.0, 1.3, 1.7].map(|x| x * 2f32.powi(i)));
    let mut x: Vec<f32> = sizes.flat_map(|x| [x, -x]).collect();
    x.extend((-2000..2000).map(|i| i as f32 / 50.0 + 0.003));
    x.extend([0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, f32::MIN, 1e-40, -1e-40]);
    x
}

/// Whether a function's value is near the reference's, by itself and not only beside larger ones.
pub fn near(f: Unary, x: f32, got: f32, want: f32) -> bool {
    // Relative, and near where terms cancel.
    let cancels = if matches!(f, Unary::Affine { .. } | Unary::Xielu { .. }) { 1.0 } else { 0.0 };
    // The reference's own sums near zero are no better than f64.
    let wide = f64::EPSILON * f64::from(x).abs() + 2e-38 * f64::from(x).abs().max(1.0);
    let bound = 4e-6 * f64::from(want).abs() + 1e-7 * cancels + wide;
    let close = (f64::from(got) - f64::from(want)).abs() <= bound;
    close || got == want || got.is_nan() && want.is_nan()
}

/// The norm of rows whose mean is far from zero: what is left without the mean is small.
pub fn large_mean<B: Prims>(ops: B) -> Vec<f32> {
    let x: Vec<f32> = Random(95).floats(3 * 200).iter().map(|x| 1000.0 + x * 0.1).collect();
    run(ops, &x, 0, 200, |ops| ops.norm(Norm { kind: NormKind::Layer, run: 200, eps: 1e-5 }, None, None))
}

/// A column copied into a buffer that has rows already: `[1, 6, 7, 4]`, since columns that are not named stay.
pub fn copied_into<B: Prims>(mut ops: B) -> Vec<f32> {
    let (mut out, x) = (upload(&mut ops, 4, &[1.0, 2.0, 3.0, 4.0]), upload(&mut ops, 3, &[5.0, 6.0, 7.0]));
    ops.copy(&mut out, &x, Columns::run(2, 1, 1));
    read(&mut ops, &out)
}
