//! Top-n-sigma: keeps what is within `n` standard deviations of the best logit.
//!
//! Tang et al., "Top-n-sigma: Not All Logits Are You Need" (2024). Unlike the other cuts it does not depend on the
//! temperature.

use super::pool::Pool;

/// Masks the logits below `max - n * deviation`; 0 or less is off. What is masked stays in the pool as it does in
/// llama.cpp, where a dynamic temperature counts it.
pub(super) fn top_n_sigma(pool: &mut Pool, n: f32) {
    if n <= 0.0 || pool.items().len() <= 1 {
        return;
    }
    let max = pool.max();
    let logits = || pool.items().iter().map(|item| item.logit).filter(|&logit| logit != f32::NEG_INFINITY);
    let count = logits().count() as f64;
    let mean = logits().map(f64::from).sum::<f64>() / count;
    let variance = logits().map(|logit| (f64::from(logit) - mean).powi(2)).sum::<f64>() / count;
    let least = f64::from(max) - f64::from(n) * variance.sqrt();
    pool.map_in_order(|logit| if f64::from(logit) < least { f32::NEG_INFINITY } else { logit });
}
