//! Statistics of values while they pass: what `candor trace --stats` shows instead of keeping them.

use std::collections::HashMap;

use serde::Serialize;

use super::sink::Sink;
use crate::{Graph, Key, Kind, file::WriteError};

/// One value in numbers. Everything but the counts is of its finite elements.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The value.
    pub key: Key,
    /// Rows seen.
    pub rows: usize,
    /// Elements of a row.
    pub width: usize,
    /// Root mean square.
    pub rms: f64,
    /// Mean.
    pub mean: f64,
    /// The smallest element; infinite if none is finite.
    pub min: f32,
    /// The largest element; negative infinite if none is finite.
    pub max: f32,
    /// Elements that are exactly 0.
    pub zeros: usize,
    /// Elements that are NaN.
    pub nan: usize,
    /// Elements that are infinite.
    pub infinite: usize,
    /// The first elements of the first row.
    pub first: Vec<f32>,
    /// Of attention's weights, the mean over rows and heads of their entropy, and of the most that it can be with as many
    /// weights that are not 0, in bits.
    pub entropy: Option<[f64; 2]>,
}

/// Sums up values.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// Elements that are kept of each value.
    first: usize,
    /// The heads of attention's weights, which lie side by side in a row.
    heads: HashMap<Key, usize>,
    sums: Vec<Sums>,
    places: HashMap<Key, usize>,
}

#[derive(Clone, Debug)]
struct Sums {
    key: Key,
    rows: usize,
    width: usize,
    finite: usize,
    sum: f64,
    squares: f64,
    min: f32,
    max: f32,
    zeros: usize,
    nan: usize,
    infinite: usize,
    first: Vec<f32>,
    /// Heads of all rows, and the sums of both entropies.
    spread: (usize, [f64; 2]),
}

impl Statistics {
    /// Statistics with the first elements of the first row, this many.
    pub fn with_first(first: usize) -> Statistics {
        Statistics { first, ..Statistics::default() }
    }

    /// The same, which know what the values of a model are.
    #[must_use]
    pub fn of(self, graph: &Graph) -> Statistics {
        let heads = graph.nodes.iter().filter_map(|node| match &node.kind {
            Kind::SoftMax(attending) => Some((node.key.clone(), attending.heads.heads)),
            _ => None,
        });
        Statistics { heads: heads.collect(), ..self }
    }

    /// Every value, in the order of computation.
    pub fn summaries(&self) -> impl Iterator<Item = Summary> {
        self.sums.iter().map(|sums| {
            let count = sums.finite.max(1) as f64;
            Summary {
                key: sums.key.clone(),
                rows: sums.rows,
                width: sums.width,
                rms: (sums.squares / count).sqrt(),
                mean: sums.sum / count,
                min: sums.min,
                max: sums.max,
                zeros: sums.zeros,
                nan: sums.nan,
                infinite: sums.infinite,
                first: sums.first.clone(),
                entropy: (sums.spread.0 > 0).then(|| sums.spread.1.map(|sum| sum / sums.spread.0 as f64)),
            }
        })
    }
}

impl Sink for Statistics {
    fn rows(&mut self, key: &Key, width: usize, _first: usize, values: &[f32]) -> Result<(), WriteError> {
        let place = *self.places.entry(key.clone()).or_insert_with(|| {
            self.sums.push(Sums::new(key.clone(), width));
            self.sums.len() - 1
        });
        let sums = &mut self.sums[place];
        if sums.rows == 0 {
            sums.first.extend(values.iter().take(self.first.min(width)));
        }
        if let Some(positions) = self.heads.get(key).and_then(|heads| width.checked_div(*heads)).filter(|&len| len > 0)
        {
            values.chunks_exact(positions).for_each(|weights| sums.spread(weights));
        }
        sums.rows += values.len().checked_div(width).unwrap_or(0);
        values.iter().for_each(|&x| sums.add(x));
        Ok(())
    }
}

impl Sums {
    fn new(key: Key, width: usize) -> Sums {
        let (min, max) = (f32::INFINITY, f32::NEG_INFINITY);
        let (first, spread) = (Vec::new(), (0, [0.0; 2]));
        Sums {
            key,
            rows: 0,
            width,
            finite: 0,
            sum: 0.0,
            squares: 0.0,
            min,
            max,
            zeros: 0,
            nan: 0,
            infinite: 0,
            first,
            spread,
        }
    }

    /// Adds the weights of a head, which a sink may have left less than 1 together.
    fn spread(&mut self, weights: &[f32]) {
        let weights = || weights.iter().map(|&weight| f64::from(weight)).filter(|weight| *weight > 0.0);
        let sum: f64 = weights().sum();
        self.spread.0 += 1;
        self.spread.1[0] -= weights().map(|weight| weight / sum * (weight / sum).log2()).sum::<f64>();
        self.spread.1[1] += (weights().count().max(1) as f64).log2();
    }

    fn add(&mut self, x: f32) {
        if !x.is_finite() {
            *(if x.is_nan() { &mut self.nan } else { &mut self.infinite }) += 1;
            return;
        }
        self.finite += 1;
        self.zeros += usize::from(x == 0.0);
        self.sum += f64::from(x);
        self.squares += f64::from(x) * f64::from(x);
        self.min = self.min.min(x);
        self.max = self.max.max(x);
    }
}

#[cfg(test)]
mod tests {
    use candor::Gguf;
    use candor_testing::Tiny;

    use super::*;

    #[test]
    fn numbers_are_of_the_finite_elements() {
        let mut statistics = Statistics::default();
        let key = Key::new("a", Some(0));
        statistics.rows(&key, 2, 0, &[3.0, -4.0, 0.0, f32::NAN]).unwrap();
        statistics.rows(&key, 2, 2, &[f32::INFINITY, 1.0]).unwrap();
        let all: Vec<Summary> = statistics.summaries().collect();
        let expected = Summary {
            key,
            rows: 3,
            width: 2,
            rms: (26.0f64 / 4.0).sqrt(),
            mean: 0.0,
            min: -4.0,
            max: 3.0,
            zeros: 1,
            nan: 1,
            infinite: 1,
            first: Vec::new(),
            entropy: None,
        };
        assert_eq!(all, [expected]);
    }

    #[test]
    fn the_first_elements_are_those_of_the_first_row() {
        for (count, expected) in [(0, vec![]), (1, vec![3.0]), (9, vec![3.0, -4.0])] {
            let mut statistics = Statistics::with_first(count);
            let key = Key::new("a", None);
            statistics.rows(&key, 2, 0, &[3.0, -4.0, 5.0, 6.0]).unwrap();
            statistics.rows(&key, 2, 2, &[7.0, 8.0]).unwrap();
            assert_eq!(statistics.summaries().next().unwrap().first, expected);
        }
    }

    #[test]
    fn weights_of_attention_have_an_entropy() {
        let graph = Graph::new(&Gguf::from_bytes(Tiny::default().bytes().into()).unwrap()).unwrap();
        let mut statistics = Statistics::default().of(&graph);
        let (weights, others) = (Key::new("kq_soft_max", Some(0)), Key::new("kq", Some(0)));
        // Two tokens, four heads: of the second token one sees both alike, one the first, one a half of it and a sink.
        let rows = [1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.5, 0.5, 1.0, 0.0, 0.25, 0.25, 1.0, 0.0];
        for key in [&weights, &others] {
            statistics.rows(key, 8, 0, &rows).unwrap();
        }
        let all: Vec<_> = statistics.summaries().map(|summary| summary.entropy).collect();
        assert_eq!(all, [Some([0.25, 0.25]), None]);
    }
}
