//! Rotary embedding: the turns of a step's positions, computed once and used by every layer.

use std::sync::Arc;

use candor_ops::{Pairing, Rope};

/// Tables kept at once; a model has one or two ropes, and a pass uses them in turn.
const TABLES: usize = 4;

/// Rotary frequencies; may be shared by any number of sessions.
#[derive(Clone, Debug)]
pub struct Rotation(pub(crate) Arc<Rope>);

/// The turns of one rope at some positions.
struct Table {
    rope: Arc<Rope>,
    positions: Vec<u32>,
    /// `(cos, sin)`, `[positions][pairs]`.
    turns: Vec<(f32, f32)>,
}

/// The tables of the latest step.
#[derive(Default)]
pub(crate) struct Turns {
    tables: Vec<Table>,
    oldest: usize,
}

impl Turns {
    /// `(cos, sin)` of each position's pairs, `[positions][pairs]`.
    pub(crate) fn at(&mut self, rope: &Rotation, positions: &[u32]) -> &[(f32, f32)] {
        let known = self.tables.iter().position(|t| Arc::ptr_eq(&t.rope, &rope.0) && t.positions == positions);
        let index = known.unwrap_or_else(|| self.compute(rope, positions));
        &self.tables[index].turns
    }

    /// Puts a new table in the place of the same rope's or, if that has no table, of the oldest.
    fn compute(&mut self, rope: &Rotation, positions: &[u32]) -> usize {
        let index = self.tables.iter().position(|t| Arc::ptr_eq(&t.rope, &rope.0)).unwrap_or_else(|| {
            if self.tables.len() < TABLES {
                self.tables.push(Table { rope: Arc::clone(&rope.0), positions: Vec::new(), turns: Vec::new() });
                return self.tables.len() - 1;
            }
            self.oldest = (self.oldest + 1) % TABLES;
            self.oldest
        });
        let table = &mut self.tables[index];
        table.rope = Arc::clone(&rope.0);
        table.positions.clear();
        table.positions.extend_from_slice(positions);
        table.turns.clear();
        let pairs = rope.0.frequencies.len();
        table.turns.extend(positions.iter().flat_map(|&position| {
            (0..pairs).map(move |pair| rope.0.turn(pair, position)).map(|(cos, sin)| (cos as f32, sin as f32))
        }));
        index
    }
}

/// Rotates the pairs of one head.
pub(crate) fn rotate(head: &mut [f32], pairing: Pairing, turns: &[(f32, f32)]) {
    let turned = |a: f32, b: f32, (cos, sin): (f32, f32)| (a * cos - b * sin, a * sin + b * cos);
    let head = &mut head[..2 * turns.len()];
    match pairing {
        Pairing::Norm => {
            for (pair, &turn) in head.chunks_exact_mut(2).zip(turns) {
                (pair[0], pair[1]) = turned(pair[0], pair[1], turn);
            }
        }
        Pairing::Neox => {
            let (first, second) = head.split_at_mut(turns.len());
            for ((a, b), &turn) in first.iter_mut().zip(second).zip(turns) {
                (*a, *b) = turned(*a, *b, turn);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_follow_rope_and_positions() {
        let rotation =
            |f: f64| Rotation(Arc::new(Rope { pairing: Pairing::Neox, frequencies: vec![f, 1.0], magnitude: 2.0 }));
        let ropes: Vec<_> = (0..TABLES + 2).map(|i| rotation(i as f64)).collect();
        let mut turns = Turns::default();
        for round in 0..3 {
            for positions in [&[0, 1][..], &[5], &[round, round + 1, round + 2]] {
                for rope in ropes.iter().chain(&ropes[..2]) {
                    let got = turns.at(rope, positions).to_vec();
                    let turn = |&p: &u32, pair| rope.0.turn(pair, p);
                    let want = positions.iter().flat_map(|p| [turn(p, 0), turn(p, 1)]);
                    assert_eq!(got, want.map(|(c, s)| (c as f32, s as f32)).collect::<Vec<_>>());
                }
            }
        }
        assert_eq!(turns.tables.len(), TABLES);
    }
}
