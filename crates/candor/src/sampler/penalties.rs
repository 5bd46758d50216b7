//! Repeat, presence and frequency penalties over a window of the last tokens.
//!
//! Keskar et al., "CTRL" (2019), with llama.cpp's care for negative logits; presence and frequency are OpenAI's.

use std::collections::{HashMap, VecDeque};

use super::{pool::Pool, settings::Sampling, window};

/// The penalties with the tokens that they count.
#[derive(Clone, Debug)]
pub(super) struct Penalties {
    repeat: f32,
    presence: f32,
    frequency: f32,
    /// Tokens looked at; 0 where nothing is penalised.
    window: usize,
    last: VecDeque<u32>,
    counts: HashMap<u32, u32>,
}

impl Penalties {
    pub(super) fn new(settings: &Sampling, context: usize) -> Self {
        let (repeat, presence, frequency) =
            (settings.repeat_penalty, settings.presence_penalty, settings.frequency_penalty);
        let on = repeat != 1.0 || presence != 0.0 || frequency != 0.0;
        Self {
            repeat,
            presence,
            frequency,
            window: if on { window(settings.repeat_last_n, context) } else { 0 },
            last: VecDeque::new(),
            counts: HashMap::new(),
        }
    }

    /// Whether anything may be penalised.
    pub(super) fn are_on(&self) -> bool {
        self.window > 0
    }

    /// How many tokens' logits it lowers; `None` if it may raise one.
    pub(super) fn lowered(&self) -> Option<usize> {
        // Taking away minus zero would raise minus zero.
        let lowers = self.repeat >= 1.0 && self.presence.is_sign_positive() && self.frequency.is_sign_positive();
        lowers.then_some(self.counts.len())
    }

    pub(super) fn accept(&mut self, id: u32) {
        if self.window == 0 {
            return;
        }
        if self.last.len() == self.window
            && let Some(old) = self.last.pop_front()
            && let Some(count) = self.counts.get_mut(&old)
        {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&old);
            }
        }
        self.last.push_back(id);
        *self.counts.entry(id).or_default() += 1;
    }

    pub(super) fn apply(&self, pool: &mut Pool) {
        // Few tokens were seen, many may follow: where a token's place is known only the seen ones are visited.
        if pool.is_indexed() {
            for (&id, &count) in &self.counts {
                if let Some(item) = pool.by_id(id) {
                    item.logit = self.penalised(item.logit, count);
                }
            }
        } else if !self.counts.is_empty() {
            for item in pool.items_mut() {
                if let Some(&count) = self.counts.get(&item.id) {
                    item.logit = self.penalised(item.logit, count);
                }
            }
        }
    }

    fn penalised(&self, logit: f32, count: u32) -> f32 {
        let repeated = if logit <= 0.0 { logit * self.repeat } else { logit / self.repeat };
        repeated - (count as f32 * self.frequency + self.presence)
    }

    pub(super) fn reset(&mut self) {
        self.last.clear();
        self.counts.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampler::{Sampler, SamplerKind, random::Mt19937};
    use std::collections::BTreeMap;

    /// The logits that a chain leaves, by id.
    fn left(sampler: &mut Sampler, logits: &[f32]) -> BTreeMap<u32, f32> {
        sampler.candidates(logits).unwrap().iter().map(|candidate| (candidate.id, candidate.logit)).collect()
    }

    fn random_logits(seed: u32, count: usize) -> Vec<f32> {
        let mut random = Mt19937::new(seed);
        (0..count).map(|_| random.uniform_f32() * 10.0 - 5.0).collect()
    }

    #[test]
    fn penalties_look_at_their_window() {
        let (seen, logits) = ([1, 2, 3, 2], [2.0; 6]);
        let settings = |repeat_last_n| {
            Sampling::default()
                .repeat_penalty(2.0)
                .frequency_penalty(0.25)
                .presence_penalty(0.125)
                .repeat_last_n(repeat_last_n)
                .samplers(vec![SamplerKind::Penalties])
        };
        let (never, once, twice) = (2.0, 2.0 / 2.0 - 0.25 - 0.125, 2.0 / 2.0 - 0.5 - 0.125);
        for (last_n, context, expected) in [
            (0, 100, [never, never, never, never]),
            (1, 100, [never, never, once, never]),
            (2, 100, [never, never, once, once]),
            (3, 100, [never, never, twice, once]),
            (64, 100, [never, once, twice, once]),
            (-1, 100, [never, once, twice, once]),
            (-1, 2, [never, never, once, once]),
        ] {
            let mut sampler = Sampler::new(&settings(last_n), context, None).unwrap();
            seen.iter().for_each(|&id| sampler.accept(id));
            let left = left(&mut sampler, &logits);
            assert_eq!([0, 1, 2, 3].map(|id| left[&id]), expected, "last {last_n} of {context}");
            sampler.reset();
            assert_eq!(sampler.candidates(&logits).unwrap()[2].logit, never, "after a reset");
        }
        // A token that no logit belongs to is no harm.
        let mut sampler = Sampler::new(&settings(64), 100, None).unwrap();
        sampler.accept(u32::MAX);
        sampler.sample(&logits).unwrap();
    }

    #[test]
    fn penalties_work_behind_a_cut_too() {
        let logits = random_logits(5, 400);
        let chain = |text| {
            Sampling::default()
                .repeat_penalty(1.5)
                .top_k(50)
                .dry_multiplier(1.0)
                .dry_sequence_breakers(vec![])
                .samplers(Sampling::parse_samplers(text).unwrap())
        };
        let mut before = Sampler::new(&chain("penalties;dry"), 512, None).unwrap();
        let mut behind = Sampler::new(&chain("top_k;penalties;dry"), 512, None).unwrap();
        for id in (0..400).step_by(7).chain([8, 9, 10, 11, 8, 9, 10]) {
            before.accept(id);
            behind.accept(id);
        }
        let (before, behind) = (left(&mut before, &logits), left(&mut behind, &logits));
        assert_eq!(behind.len(), 50);
        for (id, logit) in behind {
            assert_eq!(logit, before[&id], "token {id}");
        }
    }
}
