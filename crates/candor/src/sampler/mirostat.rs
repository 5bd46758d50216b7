//! Mirostat 1 and 2: the cut follows a target surprise from token to token.
//!
//! Basu et al., "Mirostat: A Neural Text Decoding Algorithm that Directly Controls Perplexity" (2021).

use super::{pool::Pool, settings::Sampling};

/// Tokens from which version 1 estimates the distribution's steepness, as in the paper.
const ESTIMATED_FROM: usize = 100;

/// The algorithm's state.
#[derive(Clone, Debug)]
pub(super) struct Mirostat {
    version: u8,
    tau: f32,
    eta: f32,
    /// The most surprise allowed, in bits.
    mu: f32,
}

impl Mirostat {
    /// `None` where the settings do not ask for it.
    pub(super) fn new(settings: &Sampling) -> Option<Self> {
        let (version, tau, eta) = (settings.mirostat, settings.mirostat_tau, settings.mirostat_eta);
        (version > 0).then_some(Self { version, tau, eta, mu: 2.0 * tau })
    }

    /// Keeps the tokens that are not too surprising, the best one in any case.
    pub(super) fn truncate(&self, pool: &mut Pool) {
        if pool.items().is_empty() {
            return;
        }
        match self.version {
            1 => self.truncate_by_rank(pool),
            _ => self.truncate_by_surprise(pool),
        }
    }

    /// Version 1: assumes Zipf's law, estimates its exponent, and keeps as many as have the allowed surprise under it.
    fn truncate_by_rank(&self, pool: &mut Pool) {
        let tokens = pool.items().len();
        let (mut above, mut below) = (0.0, 0.0);
        for i in 0..(ESTIMATED_FROM - 1).min(tokens - 1) {
            let (here, next) = (pool.nth(i).logit, pool.nth(i + 1).logit);
            let t = libm::log((i + 2) as f64 / (i + 1) as f64);
            above += t * f64::from(here - next);
            below += t * t;
        }
        let exponent: f64 = above / below;
        let epsilon = exponent - 1.0;
        let sum = epsilon * libm::exp2(f64::from(self.mu)) / (1.0 - libm::pow(tokens as f64, -epsilon));
        // From NaN (one token, or an exponent of exactly 1) the conversion gives 0, and one token is kept; from more than
        // fits it gives the largest number. There llama.cpp's conversion is undefined.
        pool.keep_best(libm::pow(sum, 1.0 / exponent) as usize);
    }

    /// Version 2: keeps the tokens whose surprise is `mu` at most.
    fn truncate_by_surprise(&self, pool: &mut Pool) {
        pool.softmax();
        let least = libm::exp2(-f64::from(self.mu));
        let count = pool.items().len();
        let kept = (0..count).take_while(|&at| f64::from(pool.nth(at).p) >= least).count();
        pool.truncate(kept.max(1));
    }

    /// Moves the target by the surprise of the token that was taken; `p` is its probability among the kept ones.
    pub(super) fn observe(&mut self, p: f32) {
        let surprise = -libm::log2(f64::from(p)) as f32;
        self.mu -= self.eta * (surprise - self.tau);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampler::Sampler;

    #[test]
    fn mirostat_steers_by_the_accepted_tokens() {
        let logits = (0..500).map(|i| i as f32 * -0.2).collect::<Vec<f32>>();
        let settings = Sampling::default().mirostat(2).mirostat_tau(3.0).mirostat_eta(0.5);
        let mut plain = Sampler::new(&settings, 512, None).unwrap();
        let at_first = plain.candidates(&logits).unwrap().len();
        let best = plain.last_candidates()[0].id;
        // The prompt is no choice, so it moves nothing; and a token counts once.
        let mut steered = plain.clone();
        steered.accept(best);
        let wider = steered.candidates(&logits).unwrap().len();
        assert!(wider > at_first, "a likely token allows more: {wider}, before {at_first}");
        let mut prompted = plain.clone();
        prompted.reset();
        prompted.accept(best);
        assert_eq!(prompted.candidates(&logits).unwrap().len(), at_first);
        let mut forced = plain.clone();
        forced.accept(u32::MAX);
        forced.accept(best);
        assert_eq!(forced.candidates(&logits).unwrap().len(), at_first);
    }
}
