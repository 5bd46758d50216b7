//! A complete value of a pass: a row per token.

use crate::{Evidence, Known};

/// `[rows, width]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// Rows, one per token.
    pub rows: usize,
    /// Elements per row.
    pub width: usize,
    /// The elements.
    pub data: Vec<f32>,
}

impl Value {
    /// Zeros.
    pub fn zeros(rows: usize, width: usize) -> Value {
        Value { rows, width, data: vec![0.0; rows * width] }
    }

    /// One row.
    pub fn row(&self, row: usize) -> &[f32] {
        &self.data[row * self.width..][..self.width]
    }

    /// The same elements, as many rows' to a row.
    pub(crate) fn joined(self, times: usize) -> Value {
        Value { rows: self.rows / times.max(1), width: self.width * times.max(1), data: self.data }
    }
    /// One row, to be changed.
    pub fn row_mut(&mut self, row: usize) -> &mut [f32] {
        &mut self.data[row * self.width..][..self.width]
    }
}

/// How far a suspect's value is from an expected one.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Residual {
    /// Root of the summed squared difference over that of the expected values: 0 is equal, 1.4 unrelated.
    pub relative: f64,
    /// Elements compared that are finite on both sides.
    pub elements: usize,
    /// Row and column of the largest difference.
    pub worst: (usize, usize),
    /// Root mean square of the expected elements over the precision of the dump; infinite for exact floats.
    pub resolution: f64,
    /// Length of the suspect's elements over that of the expected ones.
    pub ratio: f64,
    /// Cosine between them.
    pub cosine: f64,
}

/// Compares what is known with what is expected; `None` where they have no element in common or sizes contradict.
pub fn compare(expected: &Value, evidence: &Evidence) -> Option<Residual> {
    compare_where(expected, evidence, |_, _| true)
}

/// [`compare`], of the elements that count: row and column.
pub fn compare_where(expected: &Value, evidence: &Evidence, counts: impl Fn(usize, usize) -> bool) -> Option<Residual> {
    let mut sums = Sums::default();
    let row_of = |row: usize| match &evidence.rows {
        Some(rows) => rows.get(row).copied(),
        None => Some(row),
    };
    match &evidence.known {
        Known::All(values) => {
            if evidence.width != expected.width {
                return None;
            }
            for (index, row) in values.chunks_exact(evidence.width).enumerate() {
                let at = row_of(index).filter(|&at| at < expected.rows)?;
                let pairs = row.iter().zip(expected.row(at)).enumerate().filter(|(col, _)| counts(at, *col));
                for (col, (&got, &want)) in pairs {
                    sums.add((at, col), got, want, evidence.precision);
                }
            }
        }
        Known::Some(points) => {
            let count = evidence.rows.as_ref().map_or(expected.rows, Vec::len) as i64;
            for &(row, col, got) in points {
                let row = if row < 0 { row + count } else { row };
                let col = if col < 0 { col + expected.width as i64 } else { col };
                let at = row_of(usize::try_from(row).ok()?).filter(|&at| at < expected.rows)?;
                let col = usize::try_from(col).ok().filter(|&col| col < expected.width)?;
                if !counts(at, col) {
                    continue;
                }
                sums.add((at, col), got, expected.row(at)[col], evidence.precision);
            }
        }
    }
    sums.finish(evidence.precision)
}

#[derive(Default)]
struct Sums {
    seen: usize,
    elements: usize,
    difference: f64,
    expected: f64,
    got: f64,
    product: f64,
    worst: (f64, (usize, usize)),
    contradiction: bool,
}

impl Sums {
    fn add(&mut self, at: (usize, usize), got: f32, want: f32, precision: f64) {
        self.seen += 1;
        let (got, want) = (f64::from(got), f64::from(want));
        if !got.is_finite() || !want.is_finite() {
            let same = got.is_nan() == want.is_nan() && (got.is_nan() || got == want);
            if !same && !self.contradiction {
                self.contradiction = true;
                self.worst = (f64::INFINITY, at);
            }
            return;
        }
        self.elements += 1;
        let difference = ((got - want).abs() - precision).max(0.0);
        if difference > self.worst.0 {
            self.worst = (difference, at);
        }
        self.difference += difference * difference;
        self.expected += want * want;
        self.got += got * got;
        self.product += got * want;
    }

    fn finish(self, precision: f64) -> Option<Residual> {
        if self.seen == 0 {
            return None;
        }
        // Where nothing is expected, a difference is as large as what is there.
        let scale = if self.expected > 0.0 { self.expected } else { self.got.max(f64::MIN_POSITIVE) };
        let relative = if self.contradiction { f64::INFINITY } else { (self.difference / scale).sqrt() };
        let mean = (self.expected / self.elements.max(1) as f64).sqrt();
        Some(Residual {
            relative,
            elements: self.elements,
            worst: self.worst.1,
            resolution: if precision > 0.0 { mean / precision } else { f64::INFINITY },
            ratio: (self.got / scale).sqrt(),
            cosine: self.product / (self.got * self.expected).sqrt().max(f64::MIN_POSITIVE),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected() -> Value {
        Value { rows: 2, width: 2, data: vec![3.0, 4.0, 0.0, 12.0] }
    }

    #[test]
    fn residuals_are_relative_to_what_is_expected() {
        let equal = compare(&expected(), &Evidence::all(2, vec![3.0, 4.0, 0.0, 12.0])).unwrap();
        assert_eq!((equal.relative, equal.elements, equal.ratio, equal.cosine), (0.0, 4, 1.0, 1.0));
        let off = compare(&expected(), &Evidence::all(2, vec![3.0, 4.0, 0.0, 25.0])).unwrap();
        assert_eq!((off.relative, off.worst), (1.0, (1, 1)));
        assert!(compare(&expected(), &Evidence::all(4, vec![0.0; 4])).is_none(), "another width");
        assert!(compare(&expected(), &Evidence::all(2, vec![0.0; 6])).is_none(), "too many rows");
    }

    #[test]
    fn printed_values_are_compared_to_their_last_place() {
        let points = vec![(0, 0, 3.04), (-1, -1, 11.96)];
        let evidence = Evidence { known: Known::Some(points), precision: 0.05, ..Evidence::all(2, vec![0.0; 4]) };
        assert_eq!(compare(&expected(), &evidence).unwrap().relative, 0.0);
        let finer = Evidence { precision: 0.005, ..evidence };
        assert!(compare(&expected(), &finer).unwrap().relative > 1e-3);
    }

    #[test]
    fn not_a_number_equals_only_itself() {
        let nan = Value { rows: 1, width: 2, data: vec![f32::NAN, 1.0] };
        assert_eq!(compare(&nan, &Evidence::all(2, vec![f32::NAN, 1.0])).unwrap().relative, 0.0);
        let bad = compare(&expected(), &Evidence::all(2, vec![3.0, f32::NAN, 0.0, 12.0])).unwrap();
        assert_eq!((bad.relative, bad.worst), (f64::INFINITY, (0, 1)));
    }
}
