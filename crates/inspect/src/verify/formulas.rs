//! What each operation but the products means, in f64 from f32 inputs, element by element, and how far from it a right
//! backend may be. Written from the formulas, not from any backend; products are `product`.

use candor::ops::{Heads, Rope};

/// An expected element: its value, what its error is measured against, and the largest error relative to that.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected {
    pub(super) value: f64,
    pub(super) scale: f64,
    pub(super) bound: f64,
}

/// One or two f32 roundings (2^-24 each), with room for flushed or contracted arithmetic.
pub(super) const ROUNDING: f64 = 1e-6;
/// A short chain of f32 operations, or one function: D3's gate for norm, rope, silu. The sum of n squares of a norm
/// in lanes of 16 is within (n / 16 + 5) * 2^-25 of its value: below this for rows of up to 5000.
pub(super) const CHAIN: f64 = 1e-5;
/// A cache of half-precision values that may have been rounded either way (2^-10), both keys and values.
pub(super) const HALF: f64 = 2e-3;

/// `1 / sqrt(mean(x^2) + eps)`.
fn inverse_rms(x: &[f32], eps: f32) -> f64 {
    let squares: f64 = x.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
    1.0 / (squares / x.len() as f64 + f64::from(eps)).sqrt()
}

/// `x / sqrt(mean(x^2) + eps) * w` of one row.
pub(super) fn norm<'a>(x: &'a [f32], w: &'a [f32], eps: f32) -> impl Iterator<Item = Expected> + 'a {
    let factor = inverse_rms(x, eps);
    x.iter().zip(w).map(move |(&x, &w)| relative(f64::from(x) * factor * f64::from(w), CHAIN))
}

/// An element whose error is relative to itself.
pub(super) fn relative(value: f64, bound: f64) -> Expected {
    Expected { value, scale: value.abs(), bound }
}

/// `x + y`: the error is relative to what was added, as they may cancel.
pub(super) fn sum(x: f32, y: f32) -> Expected {
    let (x, y) = (f64::from(x), f64::from(y));
    Expected { value: x + y, scale: x.abs() + y.abs(), bound: ROUNDING }
}

/// `x / (1 + exp(-x))`.
pub(super) fn silu(x: f32) -> f64 {
    let x = f64::from(x);
    x / (1.0 + (-x).exp())
}

/// One head turned to a position. Elements that belong to no pair stay.
pub(super) fn turned(head: &[f32], rope: &Rope, position: u32) -> Vec<Expected> {
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

/// What one row attends to: its sequence's keys, `[positions, kv_heads * key_dim]`, and values likewise.
pub(super) struct Seen<'a> {
    pub(super) keys: &'a [f32],
    pub(super) values: &'a [f32],
    /// [`CHAIN`] for a cache of 32-bit floats, [`HALF`] for one that rounds.
    pub(super) bound: f64,
}

/// Attention of one row of queries over all that is seen. Errors are measured against the weighted sum of magnitudes.
pub(super) fn attended(query: &[f32], seen: &Seen<'_>, heads: Heads) -> Vec<Expected> {
    let (key_width, value_width) = (heads.kv_heads * heads.key_dim, heads.kv_heads * heads.value_dim);
    let mut out = Vec::with_capacity(heads.heads * heads.value_dim);
    for (h, query) in query.chunks_exact(heads.key_dim).enumerate() {
        let head = h / (heads.heads / heads.kv_heads);
        let mut most = 0f64;
        let mut weights: Vec<f64> = Vec::new();
        for keys in seen.keys.chunks_exact(key_width) {
            let products = query.iter().zip(&keys[head * heads.key_dim..]);
            let products = products.map(|(&q, &k)| f64::from(q) * f64::from(k) * f64::from(heads.scale));
            let (score, size) = products.fold((0.0, 0.0), |(sum, size): (f64, f64), x| (sum + x, size + x.abs()));
            weights.push(score);
            most = most.max(size);
        }
        let max = weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        weights.iter_mut().for_each(|weight| *weight = (*weight - max).exp());
        let total: f64 = weights.iter().sum();
        // An f32 score of that size is off by 2^-24 of it per rounding; twice as much in a ratio of exponentials.
        let bound = seen.bound + 16.0 * f64::from(f32::EPSILON) * most;
        for e in 0..heads.value_dim {
            let values = seen.values.chunks_exact(value_width).map(|row| f64::from(row[head * heads.value_dim + e]));
            let terms = weights.iter().zip(values).map(|(weight, value)| weight / total * value);
            let (value, scale) = terms.fold((0.0, 0.0), |(sum, size): (f64, f64), x| (sum + x, size + x.abs()));
            out.push(Expected { value, scale, bound });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silu_of_known_values() {
        // ln 3 * 3/4: 1 / (1 + 1/3) = 3/4.
        assert!((silu(3f32.ln()) - 0.823_959_2).abs() < 1e-7);
        assert_eq!(silu(0.0), 0.0);
    }

    #[test]
    fn attention_of_equal_scores_is_the_mean() {
        let heads = Heads { heads: 2, kv_heads: 1, key_dim: 1, value_dim: 2, scale: 0.5 };
        let seen = Seen { keys: &[1.0, 1.0], values: &[1.0, -4.0, 3.0, 8.0], bound: CHAIN };
        let out = attended(&[1.0, -1.0], &seen, heads);
        let values: Vec<f64> = out.iter().map(|x| x.value).collect();
        assert_eq!(values, [2.0, 2.0, 2.0, 2.0]);
        assert_eq!(out[1].scale, 6.0);
    }

    #[test]
    fn a_norm_divides_by_the_root_of_the_mean_square() {
        let values: Vec<f32> = norm(&[1.0, 7.0], &[10.0, 1.0], 0.0).map(|x| x.value as f32).collect();
        assert_eq!(values, [2.0, 1.4]);
    }
}
