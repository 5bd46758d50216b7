//! Statistics of values while they pass: what `candor trace --stats` shows instead of keeping them.

use std::collections::HashMap;

use serde::Serialize;

use super::sink::Sink;
use crate::{Key, file::WriteError};

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
}

/// Sums up values.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
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
}

impl Statistics {
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
        sums.rows += values.len().checked_div(width).unwrap_or(0);
        values.iter().for_each(|&x| sums.add(x));
        Ok(())
    }
}

impl Sums {
    fn new(key: Key, width: usize) -> Sums {
        let (min, max) = (f32::INFINITY, f32::NEG_INFINITY);
        Sums { key, rows: 0, width, finite: 0, sum: 0.0, squares: 0.0, min, max, zeros: 0, nan: 0, infinite: 0 }
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
        };
        assert_eq!(all, [expected]);
    }
}
