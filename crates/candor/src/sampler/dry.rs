//! DRY, "don't repeat yourself": penalises the token that would go on with what has been said before, the more the
//! longer the repetition.
//!
//! By p-e-w (text-generation-webui, pull request 5677). A repetition does not reach across a sequence breaker.

use std::collections::{HashMap, VecDeque};

use super::{breakers::Breakers, pool::Pool, settings::Sampling, window};

/// The sampler with the tokens that it looks at.
#[derive(Clone, Debug)]
pub(super) struct Dry {
    multiplier: f32,
    base: f32,
    allowed: usize,
    window: usize,
    breakers: Breakers,
    last: VecDeque<u32>,
    /// The window backwards, latest token first; a buffer.
    recent: Vec<u32>,
    /// For each `k`, how many tokens the end of the window shares with what ends `k` tokens earlier; a buffer.
    shared: Vec<usize>,
    /// The longest repetition that a token would go on with.
    longest: HashMap<u32, usize>,
}

impl Dry {
    /// Whether the settings make it do anything.
    pub(super) fn is_on(settings: &Sampling) -> bool {
        settings.dry_multiplier != 0.0 && settings.dry_base >= 1.0 && settings.dry_penalty_last_n != 0
    }

    pub(super) fn new(settings: &Sampling, context: usize, breakers: Breakers) -> Self {
        Self {
            multiplier: settings.dry_multiplier,
            base: settings.dry_base,
            allowed: settings.dry_allowed_length as usize,
            window: window(settings.dry_penalty_last_n, context),
            breakers,
            last: VecDeque::new(),
            recent: Vec::new(),
            shared: Vec::new(),
            longest: HashMap::new(),
        }
    }

    pub(super) fn accept(&mut self, id: u32) {
        if self.last.len() >= self.window {
            self.last.pop_front();
        }
        self.last.push_back(id);
    }

    pub(super) fn reset(&mut self) {
        self.last.clear();
    }

    /// How many tokens' logits it lowers; `None` if it raises them.
    pub(super) fn lowered(&mut self) -> Option<usize> {
        self.find();
        (self.multiplier > 0.0).then_some(self.longest.len())
    }

    /// Finds the tokens that would go on with something, and the longest repetition of each.
    fn find(&mut self) {
        self.longest.clear();
        if self.last.len() <= self.allowed {
            return;
        }
        self.recent.clear();
        self.recent.extend(self.last.iter().rev());
        let limit = self.limit();
        if limit < self.allowed {
            return;
        }
        shared_ends(&self.recent, &mut self.shared);
        for (k, &shared) in self.shared.iter().enumerate().skip(1) {
            let length = shared.min(limit);
            // Latest first, so the token that followed what ends `k` earlier is the one before.
            let next = self.recent[k - 1];
            if length >= self.allowed && !self.breakers.is_breaker(next) {
                let longest = self.longest.entry(next).or_default();
                *longest = length.max(*longest);
            }
        }
    }

    pub(super) fn apply(&mut self, pool: &mut Pool) {
        self.find();
        if pool.is_indexed() {
            for (&id, &length) in &self.longest {
                let penalty = self.penalty(length);
                if let Some(item) = pool.by_id(id) {
                    item.logit -= penalty;
                }
            }
        } else if !self.longest.is_empty() {
            for item in pool.items_mut() {
                if let Some(&length) = self.longest.get(&item.id) {
                    item.logit -= self.penalty(length);
                }
            }
        }
    }

    /// How long a repetition can be: the number of tokens since the last breaker.
    fn limit(&self) -> usize {
        let since = self.recent.iter().enumerate().find_map(|(i, &id)| {
            // Token `j` behind this one is `j + 1` nearer to the end.
            let after = |j: usize| i.checked_sub(j + 1).map(|at| self.recent[at]);
            self.breakers.longest(id, after).map(|tail| i - tail)
        });
        since.unwrap_or(self.recent.len())
    }

    /// `multiplier * base ^ (length - allowed)`, never infinite.
    fn penalty(&self, length: usize) -> f32 {
        let power = libm::pow(f64::from(self.base), (length - self.allowed) as f64);
        let penalty = f64::from(self.multiplier) * power;
        penalty.clamp(f64::from(f32::MIN), f64::from(f32::MAX)) as f32
    }
}

/// Sets `shared[k]` to the number of equal tokens from the start of `tokens` and from its `k`-th on (`shared[0]` is
/// left 0), in linear time: the Z-algorithm (Gusfield, "Algorithms on Strings, Trees, and Sequences", 1997, section 1.4).
fn shared_ends(tokens: &[u32], shared: &mut Vec<usize>) {
    shared.clear();
    shared.resize(tokens.len(), 0);
    // tokens[start..end] equals the start of tokens, and no such range known reaches further.
    let (mut start, mut end) = (0, 0);
    for k in 1..tokens.len() {
        let mut n = if k < end { shared[k - start].min(end - k) } else { 0 };
        while k + n < tokens.len() && tokens[n] == tokens[k + n] {
            n += 1;
        }
        shared[k] = n;
        if k + n > end {
            (start, end) = (k, k + n);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampler::random::Mt19937;
    use crate::sampler::{Error, Sampler, SamplerKind, Vocabulary};

    #[test]
    fn shared_ends_are_those_of_plain_comparison() {
        let mut random = Mt19937::new(11);
        let mut shared = Vec::new();
        for round in 0..300 {
            let letters = 1 + round % 4;
            let length = (random.uniform() * 60.0) as usize;
            let tokens: Vec<u32> = (0..length).map(|_| (random.uniform() * letters as f64) as u32).collect();
            shared_ends(&tokens, &mut shared);
            for k in 1..length {
                let plain = tokens.iter().zip(&tokens[k..]).take_while(|(a, b)| a == b).count();
                assert_eq!(shared[k], plain, "{tokens:?} at {k}");
            }
        }
    }

    #[test]
    fn the_token_that_goes_on_is_penalised() {
        let settings = Sampling::default().dry_multiplier(0.5).dry_base(2.0);
        let mut dry = Dry::new(&settings, 0, Breakers::default());
        // "1 2 3 4 . 9 . 1 2 3": 4 would go on with a repetition of 3.
        for id in [1, 2, 3, 4, 7, 9, 7, 1, 2, 3] {
            dry.accept(id);
        }
        let mut pool = Pool::default();
        pool.load(&[0.0; 10]);
        dry.apply(&mut pool);
        let logits: Vec<f32> = pool.items().iter().map(|item| item.logit).collect();
        assert_eq!(logits, [0.0, 0.0, 0.0, 0.0, -1.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn dry_stops_at_breakers_and_needs_a_vocabulary_for_them() {
        let settings = Sampling::default().dry_multiplier(1.0).dry_base(2.0);
        assert_eq!(Sampler::new(&settings, 512, None).unwrap_err(), Error::NoVocabulary);
        let unused = settings.clone().samplers(vec![SamplerKind::TopK]);
        assert!(Sampler::new(&unused, 512, None).is_ok());

        let pieces = ["a", "b", "c", "\n", "d:"];
        let vocabulary = Vocabulary {
            tokens: pieces.len(),
            piece: &|id| pieces[id as usize].as_bytes().to_vec(),
            encode: &|text| panic!("no breaker has a tail, asked for {text:?}"),
        };
        let alone = settings.samplers(vec![SamplerKind::Dry]);
        for (said, next, penalty) in [
            (&[0, 1, 2, 0, 1][..], 2, 1.0),
            (&[0, 1, 2, 0, 1, 2, 0, 1], 2, 8.0),
            // The repetition is cut down to the tokens since the breaker.
            (&[0, 3, 1, 0, 2, 0, 3, 1, 0], 2, 1.0),
            (&[0, 1, 3, 0, 2, 0, 1, 3, 0], 2, 0.0),
            // A breaker itself is never penalised.
            (&[0, 1, 4, 0, 1], 4, 0.0),
        ] {
            let mut sampler = Sampler::new(&alone, 512, Some(&vocabulary)).unwrap();
            said.iter().for_each(|&id| sampler.accept(id));
            let left = sampler.candidates(&[0.0; 5]).unwrap();
            assert_eq!(left[next].logit, -penalty, "{said:?}");
        }
    }
}
