//! Locally typical sampling: keeps the tokens about as surprising as the distribution is on the whole.
//!
//! Meister et al., "Locally Typical Sampling" (2022).

use super::pool::{Candidate, Pool, sort_on};

/// The buffers of the sampler.
#[derive(Clone, Debug, Default)]
pub(super) struct Typical {
    scored: Vec<Scored>,
    chosen: Vec<Candidate>,
}

#[derive(Clone, Copy, Debug)]
struct Scored {
    /// How far the token's surprise is from the entropy, in nats.
    distance: f64,
    at: usize,
}

impl Typical {
    /// Keeps the tokens nearest to the entropy until they have more than probability `p` together, and `min_keep` at
    /// least, in that order; 1 is off.
    pub(super) fn apply(&mut self, pool: &mut Pool, p: f32, min_keep: usize) {
        if p >= 1.0 {
            return;
        }
        let norm = pool.softmax();
        let ln_sum = libm::log(norm.sum);
        let ln_p = |item: &Candidate| f64::from(item.logit - norm.max) - ln_sum;
        // A token of probability 0 adds nothing. In llama.cpp it makes the entropy NaN, and the order arbitrary.
        let likely = pool.items().iter().filter(|item| item.p > 0.0);
        let entropy: f64 = likely.map(|item| -f64::from(item.p) * ln_p(item)).sum();
        let distance = |item| (-ln_p(item) - entropy).abs();
        self.scored.clear();
        let items = pool.items().iter().enumerate();
        self.scored.extend(items.map(|(at, item)| Scored { distance: distance(item), at }));

        self.chosen.clear();
        let (mut sorted, mut sum) = (0, 0.0);
        for count in 1..=self.scored.len() {
            let order = |a: &Scored, b: &Scored| a.distance.total_cmp(&b.distance).then(a.at.cmp(&b.at));
            sort_on(&mut self.scored, &mut sorted, count, order);
            let item = pool.items()[self.scored[count - 1].at];
            self.chosen.push(item);
            sum += f64::from(item.p);
            if sum > f64::from(p) && count >= min_keep {
                break;
            }
        }
        pool.replace(&self.chosen);
    }
}
