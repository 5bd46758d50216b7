//! XTC, "exclude top choices": now and then drops all likely tokens but the least likely of them.
//!
//! By p-e-w (text-generation-webui, pull request 6335).

use super::{pool::Pool, random::Mt19937, settings::Sampling};

/// The sampler with its own random numbers.
#[derive(Clone, Debug)]
pub(super) struct Xtc {
    probability: f32,
    threshold: f32,
    min_keep: usize,
    random: Mt19937,
}

impl Xtc {
    pub(super) fn new(settings: &Sampling, seed: u32) -> Self {
        Self {
            probability: settings.xtc_probability,
            threshold: settings.xtc_threshold,
            min_keep: settings.min_keep,
            random: Mt19937::new(seed),
        }
    }

    pub(super) fn reset(&mut self, seed: u32) {
        self.random = Mt19937::new(seed);
    }

    /// Whether it may ever drop a token: above a half at most one can be likely, and one is never dropped.
    pub(super) fn is_on(&self) -> bool {
        self.probability > 0.0 && self.threshold <= 0.5
    }

    pub(super) fn apply(&mut self, pool: &mut Pool) {
        let count = pool.items().len();
        if !self.is_on() || count < 2 {
            return;
        }
        if self.random.uniform_f32() > self.probability {
            return;
        }
        pool.softmax();
        let likely = (0..count).take_while(|&at| pool.nth(at).p >= self.threshold).count();
        let dropped = likely.saturating_sub(1);
        if dropped > 0 && count - dropped >= self.min_keep {
            pool.skip(dropped);
        }
    }
}
