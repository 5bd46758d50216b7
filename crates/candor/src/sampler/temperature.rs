//! Temperature, static and dynamic.

use super::{pool::Pool, settings::Sampling};

/// Divides the logits by the temperature; 0 or less masks all but the best.
pub(super) fn scale(pool: &mut Pool, temperature: f32) {
    if temperature > 0.0 {
        pool.map_in_order(|logit| logit / temperature);
        return;
    }
    pool.mask_all_but_best();
}

/// As [`scale`], where a range is set with a temperature inside of it: low where the distribution is sharp, high where
/// it is flat. By kalomaze (llama.cpp, pull request 4972).
pub(super) fn dynamic(pool: &mut Pool, settings: &Sampling) {
    let Sampling { temperature, dynatemp_range: range, dynatemp_exp: exponent, .. } = *settings;
    if range <= 0.0 {
        return scale(pool, temperature);
    }
    let count = pool.items().len();
    if count <= 1 {
        return;
    }
    let norm = pool.softmax();
    let ln_sum = libm::log(norm.sum);
    let likely = pool.items().iter().filter(|item| item.p > 0.0);
    let entropy: f64 = likely.map(|item| f64::from(item.p) * (ln_sum - f64::from(item.logit - norm.max))).sum();
    let normalised = (entropy / libm::log(count as f64)).clamp(0.0, 1.0);
    let least = f64::from((temperature - range).max(0.0));
    let most = f64::from(temperature + range);
    scale(pool, (least + (most - least) * libm::pow(normalised, f64::from(exponent))) as f32);
}
