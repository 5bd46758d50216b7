//! The candidates that a chain works on: loaded from logits, sorted as far as needed, cut, turned into probabilities.
//! Which of them stay is the samplers' business.

use std::cmp::Ordering;

use candor_ops::{Ranked, better_first};

use super::exp::exp;

/// A token that may follow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// The token.
    pub id: u32,
    /// Its logit as the chain left it.
    pub logit: f32,
    /// Its probability among the candidates.
    pub p: f32,
}

/// Logits whose powers are taken at once.
const BLOCK: usize = 16;

/// The candidates of one token, in a buffer that stays.
#[derive(Clone, Debug, Default)]
pub(super) struct Pool {
    items: Vec<Candidate>,
    /// How many of the first items are the best ones, in order.
    sorted: usize,
    /// Each item is at the place of its id.
    indexed: bool,
}

/// What a softmax divides by: `p = exp(logit - max) / sum`.
pub(super) struct Norm {
    pub max: f32,
    pub sum: f64,
}

/// The better logit first, of equal ones the smaller id.
pub(super) fn by_logit(a: &Candidate, b: &Candidate) -> Ordering {
    better_first(&(a.id, a.logit), &(b.id, b.logit))
}

/// A logit as it counts.
fn clean(logit: f32) -> f32 {
    if logit.is_nan() { f32::NEG_INFINITY } else { logit.min(f32::MAX) }
}

/// Given that the first `sorted` of `items` are the least, in order: makes it `wanted` at least. Goes further than
/// asked so that a caller that asks for one more each time costs a few passes over the rest, not one each.
pub(super) fn sort_on<T>(items: &mut [T], sorted: &mut usize, wanted: usize, order: impl Fn(&T, &T) -> Ordering) {
    const FIRST: usize = 256;
    if wanted <= *sorted {
        return;
    }
    let goal = wanted.max(*sorted * 4).max(FIRST);
    let rest = &mut items[*sorted..];
    let more = (goal - *sorted).min(rest.len());
    if more < rest.len() {
        rest.select_nth_unstable_by(more, &order);
    }
    rest[..more].sort_unstable_by(&order);
    *sorted += more;
}

impl Pool {
    /// Takes the logits in; see [`Sampler::candidates`](super::Sampler::candidates) for those that are not finite.
    pub(super) fn load(&mut self, logits: &[f32]) {
        self.items.clear();
        self.items.extend((0..).zip(logits).map(|(id, &logit)| Candidate { id, logit: clean(logit), p: 0.0 }));
        self.sorted = 0;
        self.indexed = true;
    }

    /// Takes in the best logits alone.
    pub(super) fn load_best(&mut self, best: &[Ranked]) {
        self.items.clear();
        self.items.extend(best.iter().map(|&(id, logit)| Candidate { id, logit: clean(logit), p: 0.0 }));
        self.sorted = 0;
        self.indexed = false;
    }

    pub(super) fn items(&self) -> &[Candidate] {
        &self.items
    }

    /// To change logits: afterwards nothing counts as sorted.
    pub(super) fn items_mut(&mut self) -> &mut [Candidate] {
        self.sorted = 0;
        &mut self.items
    }

    /// To change logits by a function that keeps their order, called on each from first to last.
    pub(super) fn map_in_order(&mut self, mut change: impl FnMut(f32) -> f32) {
        for item in &mut self.items {
            item.logit = change(item.logit);
        }
    }

    /// Masks all but the best.
    pub(super) fn mask_all_but_best(&mut self) {
        let first = if self.sorted > 0 { self.items.first() } else { self.items.iter().min_by(|a, b| by_logit(a, b)) };
        let Some(best) = first.map(|item| item.id) else { return };
        for item in self.items.iter_mut().filter(|item| item.id != best) {
            item.logit = f32::NEG_INFINITY;
        }
    }

    /// The candidate of a token, to change its logit.
    pub(super) fn by_id(&mut self, id: u32) -> Option<&mut Candidate> {
        self.sorted = 0;
        if self.indexed { self.items.get_mut(id as usize) } else { self.items.iter_mut().find(|item| item.id == id) }
    }

    /// Whether finding a token costs nothing.
    pub(super) fn is_indexed(&self) -> bool {
        self.indexed
    }

    /// The `at`-th best. `at` must be below the number of items.
    pub(super) fn nth(&mut self, at: usize) -> Candidate {
        if at >= self.sorted {
            self.indexed = false;
            sort_on(&mut self.items, &mut self.sorted, at + 1, by_logit);
        }
        self.items[at]
    }

    /// Keeps the best `k` (at least one), in order.
    pub(super) fn keep_best(&mut self, k: usize) {
        let k = k.clamp(1, self.items.len().max(1));
        if k > self.sorted && k < self.items.len() {
            self.thin(k);
        }
        if !self.items.is_empty() {
            self.nth(k.min(self.items.len()) - 1);
        }
        self.items.truncate(k);
        self.sorted = self.sorted.min(k);
    }

    /// Drops most of what is not among the best `k`, in one pass: whatever is worse than the `k`-th best so far.
    fn thin(&mut self, k: usize) {
        let room = k.saturating_mul(4).max(256);
        if room >= self.items.len() {
            return;
        }
        let mut kept = 0;
        let mut bar = f32::NEG_INFINITY;
        for start in (0..self.items.len()).step_by(BLOCK) {
            let block = start..self.items.len().min(start + BLOCK);
            // Soon nearly every block ends here; without a branch for each item the compiler makes vectors of it.
            if self.items[block.clone()].iter().fold(true, |below, item| below & (item.logit < bar)) {
                continue;
            }
            for at in block {
                let item = self.items[at];
                if item.logit < bar {
                    continue;
                }
                self.items[kept] = item;
                kept += 1;
                if kept == room {
                    bar = self.items[..kept].select_nth_unstable_by(k - 1, by_logit).1.logit;
                    kept = k;
                }
            }
        }
        self.items.truncate(kept);
        self.sorted = 0;
        self.indexed = false;
    }

    /// Keeps the first `count` as they are.
    pub(super) fn truncate(&mut self, count: usize) {
        self.items.truncate(count);
        self.sorted = self.sorted.min(count);
    }

    /// Drops the first `count`.
    pub(super) fn skip(&mut self, count: usize) {
        self.items.drain(..count);
        self.sorted = self.sorted.saturating_sub(count);
        self.indexed &= count == 0;
    }

    /// Keeps those whose logit is at least `least`, in their order.
    pub(super) fn keep_from(&mut self, least: f32) {
        self.sorted = self.items[..self.sorted].partition_point(|item| item.logit >= least);
        let before = self.items.len();
        self.items.retain(|item| item.logit >= least);
        self.indexed &= self.items.len() == before;
    }

    /// Puts these candidates in the place of all, in their own order.
    pub(super) fn replace(&mut self, chosen: &[Candidate]) {
        self.items.clear();
        self.items.extend_from_slice(chosen);
        self.sorted = 0;
        self.indexed = false;
    }

    /// Drops those whose logit is minus infinity.
    pub(super) fn drop_masked(&mut self) {
        if self.items.iter().any(|item| item.logit == f32::NEG_INFINITY) {
            self.keep_from(f32::MIN);
        }
    }

    /// The largest logit; minus infinity if there are no logits.
    pub(super) fn max(&self) -> f32 {
        if self.sorted > 0 {
            return self.items[0].logit;
        }
        self.items.iter().fold(f32::NEG_INFINITY, |max, item| if item.logit > max { item.logit } else { max })
    }

    /// Sets every `p`. The sum is in f64, in the order of the items.
    pub(super) fn softmax(&mut self) -> Norm {
        let max = self.max().clamp(f32::MIN, f32::MAX);
        let mut sum = 0.0;
        // In arrays, so that the compiler makes vectors of them.
        let (blocks, rest) = self.items.as_chunks_mut::<BLOCK>();
        for block in blocks {
            let mut powers = block.map(|item| item.logit);
            for power in &mut powers {
                *power = exp(*power - max);
            }
            for (item, power) in block.iter_mut().zip(powers) {
                item.p = power;
                sum += f64::from(power);
            }
        }
        for item in rest {
            item.p = exp(item.logit - max);
            sum += f64::from(item.p);
        }
        if sum > 0.0 {
            let scale = sum.recip();
            for item in &mut self.items {
                item.p = (f64::from(item.p) * scale) as f32;
            }
        }
        Norm { max, sum }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampler::random::Mt19937;

    fn pool(logits: &[f32]) -> Pool {
        let mut pool = Pool::default();
        pool.load(logits);
        pool
    }

    #[test]
    fn the_best_are_the_best_however_many() {
        let mut random = Mt19937::new(3);
        for length in [1usize, 2, 255, 257, 1000, 20_000] {
            // Coarse, so that there are ties.
            let logits: Vec<f32> = (0..length).map(|_| (random.uniform_f32() * 500.0).floor()).collect();
            let mut all = pool(&logits);
            all.items.sort_by(by_logit);
            for k in [1, 2, 40, 300, length / 2 + 1, length, length + 5] {
                let mut best = pool(&logits);
                best.keep_best(k);
                assert_eq!(best.items, all.items[..k.min(length)], "{k} of {length}");
                let mut nth = pool(&logits);
                let at = k.min(length) - 1;
                assert_eq!(nth.nth(at), all.items[at], "the {at}th of {length}");
                assert_eq!(nth.items[..=at], all.items[..=at]);
            }
        }
    }

    #[test]
    fn keeping_the_best_of_masked_ones_pads_with_them() {
        let mut logits = vec![f32::NEG_INFINITY; 5000];
        logits[3000] = 1.0;
        let mut pool = pool(&logits);
        pool.keep_best(3);
        assert_eq!(pool.items.iter().map(|item| item.id).collect::<Vec<_>>(), [3000, 0, 1]);
        pool.drop_masked();
        assert_eq!(pool.items.len(), 1);
    }

    #[test]
    fn a_softmax_never_makes_nan() {
        for logits in [
            &[f32::NAN, 1.0][..],
            &[f32::INFINITY, f32::INFINITY, 0.0],
            &[f32::MAX, f32::MIN],
            &[f32::NEG_INFINITY],
            &[],
        ] {
            let mut pool = pool(logits);
            pool.softmax();
            assert!(pool.items.iter().all(|item| (0.0..=1.0).contains(&item.p)), "{logits:?}: {:?}", pool.items);
        }
    }
}
