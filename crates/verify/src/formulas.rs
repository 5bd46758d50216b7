//! What each operation but the products means, in f64 from f32 inputs, element by element, and how far from it a right
//! backend may be. Written from the formulas, not from any backend; products are `product`, attention is
//! `attended`, and what has a state is `states`.

use candor_ops::{Norm, NormKind, Rope, Unary};

/// An expected element: its value, what its error is measured against, and the largest error relative to that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    pub(crate) value: f64,
    pub(crate) scale: f64,
    pub(crate) bound: f64,
}

/// One or two f32 roundings (2^-24 each), with room for flushed or contracted arithmetic.
pub(crate) const ROUNDING: f64 = 1e-6;
/// A short chain of f32 operations, or one function: D3's gate for norm, rope, silu. The sum of n squares of a norm
/// in lanes of 16 is within (n / 16 + 5) * 2^-25 of its value: below this for rows of up to 5000.
pub(crate) const CHAIN: f64 = 1e-5;
/// A cache of half-precision values that may have been rounded either way (2^-10), both keys and values.
pub(crate) const HALF: f64 = 2e-3;

/// A row, each run of it normed, times a weight and plus a bias; both are as wide as a run, or as the row.
pub(crate) fn norm(x: &[f32], norm: Norm, weight: Option<&[f32]>, bias: Option<&[f32]>) -> Vec<Expected> {
    let mut out = Vec::with_capacity(x.len());
    for run in x.chunks_exact(norm.run) {
        let len = run.len() as f64;
        let mean = match norm.kind {
            NormKind::Layer => run.iter().map(|&x| f64::from(x)).sum::<f64>() / len,
            NormKind::Rms | NormKind::L2 => 0.0,
        };
        let squares: f64 = run.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum();
        let square = if norm.kind == NormKind::L2 { squares } else { squares / len };
        let factor = 1.0 / (square + f64::from(norm.eps)).sqrt();
        for &x in run {
            let part = |w: &[f32]| f64::from(w[out.len() % w.len()]);
            let by = factor * weight.map_or(1.0, part);
            let (x, bias) = (f64::from(x), bias.map_or(0.0, part));
            // What is taken away and what is added may cancel.
            let scale = (x.abs() + mean.abs()) * by.abs() + bias.abs();
            out.push(Expected { value: (x - mean) * by + bias, scale, bound: CHAIN });
        }
    }
    out
}

/// A function of one number. Where it subtracts, or comes close to zero as a difference, errors are relative to the parts.
pub(crate) fn applied(f: Unary, x: f32) -> Expected {
    let x = f64::from(x);
    let value = f.at(x);
    let scale = match f {
        // 1 + tanh and 1 + erf lose their digits below zero.
        Unary::Gelu | Unary::GeluErf => x.abs(),
        Unary::Affine { scale, offset } => (f64::from(scale) * x).abs() + f64::from(offset).abs(),
        Unary::Xielu { negative, beta, .. } if x <= 0.0 => {
            f64::from(negative).abs() * (x.exp_m1().abs() + x.abs()) + f64::from(beta).abs() * x.abs()
        }
        _ => value.abs(),
    };
    Expected { value, scale, bound: CHAIN }
}

/// `sum(x * y)`: the error is relative to the products without signs.
pub(crate) fn dot(x: &[f32], y: &[f32]) -> Expected {
    let terms = x.iter().zip(y).map(|(&x, &y)| f64::from(x) * f64::from(y));
    let (value, scale) = terms.fold((0.0, 0.0), |(sum, size): (f64, f64), x| (sum + x, size + x.abs()));
    Expected { value, scale, bound: CHAIN }
}

/// `x + y`, where `y` is a number of a table whose block has this largest magnitude.
pub(crate) fn sum_of_table(x: f32, (y, largest): (f32, f32)) -> Expected {
    let (x, y) = (f64::from(x), f64::from(y));
    Expected { value: x + y, scale: x.abs() + f64::from(largest), bound: ROUNDING }
}

/// The best `k` of a row, the best first and of equals the earlier: the place of each, and its value.
pub(crate) fn best(row: &[f32], k: usize) -> Vec<Expected> {
    let mut places: Vec<usize> = (0..row.len()).collect();
    // A sort that leaves equals as they are.
    places.sort_by(|&a, &b| row[b].total_cmp(&row[a]));
    places.truncate(k);
    places.into_iter().flat_map(|at| [relative(at as f64, 0.0), relative(row[at].into(), 0.0)]).collect()
}

/// An element whose error is relative to itself.
pub(crate) fn relative(value: f64, bound: f64) -> Expected {
    Expected { value, scale: value.abs(), bound }
}

/// `x + y`: the error is relative to what was added, as they may cancel.
pub(crate) fn sum(x: f32, y: f32) -> Expected {
    let (x, y) = (f64::from(x), f64::from(y));
    Expected { value: x + y, scale: x.abs() + y.abs(), bound: ROUNDING }
}

/// One head turned to a position. Elements that belong to no pair stay.
pub(crate) fn turned(head: &[f32], rope: &Rope, position: u32) -> Vec<Expected> {
    let mut out: Vec<Expected> = head.iter().map(|&x| relative(f64::from(x), CHAIN)).collect();
    for pair in 0..rope.frequencies.len() {
        let angle = f64::from(position) * rope.frequencies[pair];
        let (sin, cos) = angle.sin_cos();
        let (i, j) = rope.elements(pair);
        let (a, b) = (f64::from(head[i]) * rope.magnitude, f64::from(head[j]) * rope.magnitude);
        let scale = a.hypot(b);
        out[i] = Expected { value: a * cos - b * sin, scale, bound: CHAIN };
        out[j] = Expected { value: a * sin + b * cos, scale, bound: CHAIN };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn norms() {
        let rms = Norm { kind: NormKind::Rms, run: 2, eps: 0.0 };
        let values = |norm: Norm, weight: Option<&[f32]>, bias: Option<&[f32]>| -> Vec<f32> {
            super::norm(&[1.0, 7.0, 1.0, 7.0], norm, weight, bias).iter().map(|x| x.value as f32).collect()
        };
        assert_eq!(values(rms, Some(&[10.0, 1.0]), None), [2.0, 1.4, 2.0, 1.4]);
        assert_eq!(values(rms, Some(&[10.0, 1.0, 5.0, 2.0]), Some(&[1.0, 0.0])), [3.0, 1.4, 2.0, 2.8]);
        assert_eq!(values(Norm { kind: NormKind::Layer, ..rms }, None, None), [-1.0, 1.0, -1.0, 1.0]);
        assert_eq!(values(Norm { kind: NormKind::L2, run: 4, eps: 300.0 }, None, None), [0.05, 0.35, 0.05, 0.35]);
    }
}
