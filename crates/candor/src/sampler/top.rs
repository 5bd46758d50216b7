//! The samplers that keep the most likely tokens: top-k, top-p and min-p.

use super::pool::Pool;

/// Keeps the `k` most likely; 0 or less is off.
pub(super) fn top_k(pool: &mut Pool, k: i32) {
    if k > 0 {
        pool.keep_best(k as usize);
    }
}

/// Keeps the most likely tokens until they have probability `p` together, and `min_keep` at least; 1 is off.
/// Holtzman et al., "The Curious Case of Neural Text Degeneration" (2020).
pub(super) fn top_p(pool: &mut Pool, p: f32, min_keep: usize) {
    if p >= 1.0 {
        return;
    }
    pool.softmax();
    let mut sum = 0.0;
    for at in 0..pool.items().len() {
        sum += f64::from(pool.nth(at).p);
        if sum >= f64::from(p) && at + 1 >= min_keep {
            pool.truncate(at + 1);
            return;
        }
    }
}

/// Keeps the tokens that are at least `p` times as likely as the best, and `min_keep` at least; 0 is off.
/// Nguyen et al., "Turning Up the Heat: Min-p Sampling" (2024).
pub(super) fn min_p(pool: &mut Pool, p: f32, min_keep: usize) {
    if p <= 0.0 || pool.items().is_empty() {
        return;
    }
    let least = pool.max() + libm::log(f64::from(p)) as f32;
    let enough = pool.items().iter().filter(|item| item.logit >= least).count();
    if enough >= min_keep.max(1) {
        pool.keep_from(least);
    } else {
        pool.keep_best(min_keep);
    }
}
