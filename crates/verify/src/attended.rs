//! What attention means, in f64 from f32 queries and what the cache holds, with every mask, cap and bias.

use candor_ops::{Attention, alibi_slope, relative_bucket};

use crate::formulas::Expected;

/// What a sequence has in the cache: its keys, `[positions, kv_heads * key_dim]`, and values likewise.
pub(crate) struct Seen<'a> {
    pub(crate) keys: &'a [f32],
    pub(crate) values: &'a [f32],
    /// Positions of the sequence up to the last one of the step.
    pub(crate) len: usize,
    /// [`crate::formulas::CHAIN`] for a cache of 32-bit floats, [`crate::formulas::HALF`] for one that rounds.
    pub(crate) bound: f64,
}

/// A score, and the size of what it was added up from.
type Score = (f64, f64);

/// Attention of one row of queries at a position. Errors are measured against the weighted sum of magnitudes.
pub(crate) fn attended(
    query: &[f32],
    position: usize,
    seen: &Seen<'_>,
    attention: &Attention<'_, Vec<f32>>,
) -> Vec<Expected> {
    let heads = attention.heads;
    let (key_width, value_width) = (heads.kv_heads * heads.key_dim, heads.kv_heads * heads.value_dim);
    let places = attention.mask.seen(position, seen.len);
    let mut out = Vec::with_capacity(heads.heads * heads.value_dim);
    for (h, query) in query.chunks_exact(heads.key_dim).enumerate() {
        let head = h / (heads.heads / heads.kv_heads);
        let score = |p: usize| -> Score {
            let key = &seen.keys[p * key_width + head * heads.key_dim..][..heads.key_dim];
            let products = query.iter().zip(key).map(|(&q, &k)| f64::from(q) * f64::from(k) * f64::from(heads.scale));
            let raw = products.fold((0.0, 0.0), |(sum, size): Score, x| (sum + x, size + x.abs()));
            biased(raw, (h, position, p), attention)
        };
        let scores: Vec<Score> = places.clone().map(score).collect();
        let sink = attention.sinks.map(|sinks| f64::from(sinks[h]));
        // A sink far below zero takes no share, so that its rounding does not count.
        let most = scores.iter().fold(sink.unwrap_or(0.0).max(0.0), |most, score| most.max(score.1));
        let max = scores.iter().map(|score| score.0).chain(sink).fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = scores.iter().map(|score| (score.0 - max).exp()).collect();
        // A sink takes its share and gives nothing.
        let total = weights.iter().sum::<f64>() + sink.map_or(0.0, |sink| (sink - max).exp());
        // An f32 score of that size is off by 2^-24 of it per rounding; twice as much in a ratio of exponentials.
        let bound = seen.bound + 16.0 * f64::from(f32::EPSILON) * most;
        for e in 0..heads.value_dim {
            let value = |p: usize| f64::from(seen.values[p * value_width + head * heads.value_dim + e]);
            let terms = weights.iter().zip(places.clone()).map(|(weight, p)| weight / total * value(p));
            let (value, scale) = terms.fold((0.0, 0.0), |(sum, size): Score, x| (sum + x, size + x.abs()));
            out.push(Expected { value, scale, bound });
        }
    }
    out
}

/// A scaled score with what the layer does to it, for head `h` at `position` looking at `p`.
fn biased((score, size): Score, (h, position, p): (usize, usize, usize), attention: &Attention<'_, Vec<f32>>) -> Score {
    // A cap is nowhere steeper than 1: what went in wrong does not come out worse.
    let capped = |cap: f32| f64::from(cap) * (score / f64::from(cap)).tanh();
    let (mut score, mut size) = (attention.soft_cap.map_or(score, capped), size);
    let mut add = |bias: f64| (score, size) = (score + bias, size + bias.abs());
    if let Some(max) = attention.alibi {
        add(-alibi_slope(h, attention.heads.heads, max) * position.abs_diff(p) as f64);
    }
    if let Some(relative) = attention.relative {
        let both = attention.mask.is_both();
        let bucket = relative_bucket(p as i64 - position as i64, both, relative.buckets, relative.most);
        add(f64::from(relative.table[bucket * attention.heads.heads + h]));
    }
    (score, size)
}

#[cfg(test)]
mod tests {
    use candor_ops::{Heads, Mask};

    use super::*;
    use crate::formulas::CHAIN;

    fn values(attention: &Attention<'_, Vec<f32>>, keys: &[f32], values: &[f32], position: usize) -> Vec<f64> {
        let seen = Seen { keys, values, len: keys.len(), bound: CHAIN };
        attended(&[1.0, -1.0], position, &seen, attention).iter().map(|x| x.value).collect()
    }

    const HEADS: Heads = Heads { heads: 2, kv_heads: 1, key_dim: 1, value_dim: 2, scale: 0.5 };

    #[test]
    fn equal_scores_give_the_mean() {
        let causal = Attention::causal(HEADS);
        assert_eq!(values(&causal, &[1.0, 1.0], &[1.0, -4.0, 3.0, 8.0], 1), [2.0, 2.0, 2.0, 2.0]);
        assert_eq!(values(&causal, &[1.0, 1.0], &[1.0, -4.0, 3.0, 8.0], 0), [1.0, -4.0, 1.0, -4.0]);
        let window = Attention { mask: Mask::Window(1), ..causal };
        assert_eq!(values(&window, &[1.0, 1.0], &[1.0, -4.0, 3.0, 8.0], 1), [3.0, 8.0, 3.0, 8.0]);
    }

    #[test]
    fn sinks_take_their_share() {
        let sinks = vec![0.0, f32::NEG_INFINITY];
        let with = Attention { sinks: Some(&sinks), ..Attention::causal(HEADS) };
        assert_eq!(values(&with, &[0.0], &[4.0, 6.0], 0), [2.0, 3.0, 4.0, 6.0]);
    }

    #[test]
    fn alibi_takes_from_what_is_far() {
        // Slopes of two heads: 2^-4 and 2^-8; sixteen positions away the first is e times less.
        let with = Attention { alibi: Some(8.0), ..Attention::causal(HEADS) };
        let (score, size) = biased((0.5, 0.5), (0, 16, 0), &with);
        assert_eq!((score, size), (-0.5, 1.5));
    }
}
