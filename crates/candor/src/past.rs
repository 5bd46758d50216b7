//! What a model's memory holds of a sequence, and how far back it can be taken. No values: those are the backend's.

use candor_ops::KvPlan;

/// The first tokens of a sequence whose keys, values and states are in memory.
///
/// Keys and values are forgotten by writing over them. States and caches that keep only the last positions cannot be
/// taken back so: their sequences begin again at position 0, which resets them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Past {
    held: usize,
    /// Most positions since position 0 was last fed.
    reached: usize,
}

impl Past {
    /// A memory of which it is known what it holds.
    pub(crate) fn of(held: usize, reached: usize) -> Past {
        Past { held, reached: reached.max(held) }
    }

    /// Tokens that need not be evaluated again.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// Most positions since position 0 was last fed.
    pub(crate) fn reached(&self) -> usize {
        self.reached
    }

    /// Forgets all but the first `len` tokens, and those too where there is no way back to them.
    pub(crate) fn truncate(&mut self, plan: &KvPlan, len: usize) {
        self.held = match len {
            len if len >= self.reached => self.held,
            len if len >= plan.rollback(self.reached) => len.min(self.held),
            _ => 0,
        }
    }

    /// Notes that `count` more tokens were evaluated.
    pub(crate) fn extend(&mut self, count: usize) {
        self.reached = if self.held == 0 { count } else { self.reached.max(self.held + count) };
        self.held += count;
    }
}

#[cfg(test)]
mod tests {
    use candor_ops::{KvFormat, LayerCache};

    use super::*;

    fn plan(layers: Vec<LayerCache>) -> KvPlan {
        KvPlan { layers, context: 100, step: 100, sequences: 1, pool: None, keys: KvFormat::F32, values: KvFormat::F32 }
    }

    #[test]
    fn keys_and_values_are_taken_back_and_states_are_not() {
        let attention = LayerCache::attention(1, 8, 8);
        let state = LayerCache { states: [0, 3, 0], ..LayerCache::default() };
        for (layers, after) in [(vec![attention; 2], [12, 10, 10, 13, 2]), (vec![attention, state], [12, 0, 0, 3, 0])] {
            let (plan, mut past, mut seen) = (plan(layers), Past::default(), Vec::new());
            past.extend(12);
            for len in [12, 10, 11] {
                past.truncate(&plan, len);
                seen.push(past.held());
            }
            past.extend(3);
            seen.push(past.held());
            past.truncate(&plan, 2);
            seen.push(past.held());
            assert_eq!(seen, after);
        }
    }
}
