//! What the page shows of one value: statistics, histograms, residuals by token and head, and some of its elements.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{
    given::{Given, Shape, each},
    text::Floats,
};

/// Bins of a histogram.
const BINS: usize = 40;
/// A histogram ends this many standard deviations from the mean; what lies further out counts in its last bins.
const REACH: f64 = 5.0;
/// Elements of a row that are shown.
pub(super) const SHOWN: usize = 64;

/// How much of a value goes into the page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    /// Most rows whose elements are shown.
    pub rows: usize,
    /// Most bars of a chart by token.
    pub bars: usize,
}

/// Statistics over the known elements.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Moments {
    rms: f64,
    mean: f64,
    min: f64,
    max: f64,
    zeros: usize,
    nan: usize,
    inf: usize,
    count: usize,
}

/// Counts over bins that both sides share.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Histogram {
    low: f64,
    high: f64,
    /// Whether the first and the last bin hold what lies further out.
    open: (bool, bool),
    got: Vec<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    want: Option<Vec<u32>>,
}

/// A number for each token or head: the residual, or the root mean square where there is nothing to compare with.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Bars {
    /// Tokens in one bar; the bar is as long as the largest of them.
    group: usize,
    /// NaN where nothing is known, infinite where NaN or infinity stand against numbers.
    values: Floats,
}

/// Elements of a row.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    row: usize,
    /// Their columns, where they are not the first ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    cols: Option<Vec<usize>>,
    got: Floats,
    #[serde(skip_serializing_if = "Option::is_none")]
    want: Option<Floats>,
}

/// What the page shows of one value.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Cell {
    width: usize,
    heads: usize,
    got: Moments,
    #[serde(skip_serializing_if = "Option::is_none")]
    want: Option<Moments>,
    #[serde(skip_serializing_if = "Option::is_none")]
    histogram: Option<Histogram>,
    by_row: Bars,
    #[serde(skip_serializing_if = "Option::is_none")]
    by_head: Option<Bars>,
    sample: Vec<Row>,
    /// Rows that are known, shown or not.
    known_rows: usize,
    /// Elements at the worst place: token, column, suspect's, expected.
    #[serde(skip_serializing_if = "Option::is_none")]
    worst: Option<(usize, usize, Floats)>,
}

#[derive(Clone, Copy, Default)]
struct Sums {
    count: usize,
    finite: usize,
    zeros: usize,
    nan: usize,
    sum: f64,
    square: f64,
    low: f64,
    high: f64,
}

impl Sums {
    fn add(&mut self, x: f32) {
        self.count += 1;
        let x = f64::from(x);
        if !x.is_finite() {
            self.nan += usize::from(x.is_nan());
            return;
        }
        (self.low, self.high) = if self.finite == 0 { (x, x) } else { (self.low.min(x), self.high.max(x)) };
        self.finite += 1;
        self.zeros += usize::from(x == 0.0);
        self.sum += x;
        self.square += x * x;
    }

    fn mean(&self) -> f64 {
        self.sum / self.finite.max(1) as f64
    }

    fn moments(&self) -> Moments {
        let rms = (self.square / self.finite.max(1) as f64).sqrt();
        let (nan, inf) = (self.nan, self.count - self.finite - self.nan);
        let Sums { count, zeros, low: min, high: max, .. } = *self;
        Moments { rms, mean: self.mean(), min, max, zeros, nan, inf, count }
    }

    fn reach(&self) -> (f64, f64) {
        let mean = self.mean();
        let deviation = (self.square / self.finite.max(1) as f64 - mean * mean).max(0.0).sqrt();
        ((mean - REACH * deviation).max(self.low), (mean + REACH * deviation).min(self.high))
    }
}

/// The sums of one bar.
#[derive(Clone, Copy, Default)]
struct Bar {
    count: usize,
    difference: f64,
    expected: f64,
    got: f64,
    broken: bool,
}

impl Bar {
    fn add(&mut self, got: f32, want: Option<f32>, precision: f64) {
        self.count += 1;
        let (got, want) = (f64::from(got), want.map(f64::from));
        if !got.is_finite() || want.is_some_and(|want| !want.is_finite()) {
            let same = want.is_some_and(|want| got == want || got.is_nan() && want.is_nan());
            self.broken |= !same;
            return;
        }
        self.got += got * got;
        if let Some(want) = want {
            self.difference += ((got - want).abs() - precision).max(0.0).powi(2);
            self.expected += want * want;
        }
    }

    fn length(&self, compared: bool) -> f32 {
        let length = match (self.count, compared) {
            (0, _) => f64::NAN,
            _ if self.broken => f64::INFINITY,
            (_, true) if self.expected > 0.0 => (self.difference / self.expected).sqrt(),
            (_, true) if self.difference > 0.0 => 1.0,
            (_, true) => 0.0,
            (count, false) => (self.got / count as f64).sqrt(),
        };
        length as f32
    }
}

impl Cell {
    /// The cell of a value; `worst` is the place that must be among what is shown.
    pub(super) fn new(given: Given<'_>, worst: Option<(usize, usize)>, budget: Budget) -> Cell {
        let Given { evidence, expected, shape, .. } = given;
        let want_at = |row: usize, col: usize| expected.map(|value| value.row(row)[col]);
        let per_head = shape.width.checked_div(shape.heads).unwrap_or(0).max(1);
        let (mut got, mut want) = (Sums::default(), Sums::default());
        let mut by_row = vec![Bar::default(); shape.rows];
        let mut by_head = vec![Bar::default(); shape.heads];
        let mut worst_pair = None;
        each(given, |row, col, x| {
            let y = want_at(row, col);
            got.add(x);
            y.into_iter().for_each(|y| want.add(y));
            by_row[row].add(x, y, evidence.precision);
            if let Some(bar) = by_head.get_mut(col / per_head) {
                bar.add(x, y, evidence.precision);
            }
            if worst == Some((row, col)) {
                worst_pair = Some((row, col, Floats(vec![x, y.unwrap_or(f32::NAN)])));
            }
        });
        let lengths = |bars: &[Bar]| bars.iter().map(|bar| bar.length(expected.is_some())).collect::<Vec<f32>>();
        let known: Vec<usize> = (0..shape.rows).filter(|&row| by_row[row].count > 0).collect();
        Cell {
            width: shape.width,
            heads: shape.heads,
            got: got.moments(),
            want: expected.map(|_| want.moments()),
            histogram: histogram(given, (&got, &want)),
            by_row: grouped(lengths(&by_row), budget.bars),
            by_head: (shape.heads > 1).then(|| grouped(lengths(&by_head), budget.bars)),
            sample: sample(given, &chosen(&known, shape, worst, budget.rows)),
            known_rows: known.len(),
            worst: worst_pair,
        }
    }
}

/// Neighbours taken together until there are few enough; the largest stands for them.
fn grouped(values: Vec<f32>, most: usize) -> Bars {
    let group = values.len().div_ceil(most.max(1)).max(1);
    // NaN is no data and loses against everything.
    let values = values.chunks(group).map(|chunk| chunk.iter().copied().fold(f32::NAN, f32::max)).collect();
    Bars { group, values: Floats(values) }
}

fn histogram(given: Given<'_>, sums: (&Sums, &Sums)) -> Option<Histogram> {
    let expected = given.expected;
    let sides = [sums.0, sums.1].into_iter().filter(|sums| sums.finite > 0);
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
    for side in sides {
        let (from, to) = side.reach();
        (low, high) = (low.min(from), high.max(to));
        (least, most) = (least.min(side.low), most.max(side.high));
    }
    if low > high {
        return None;
    }
    if low == high {
        let half = low.abs().max(1e-30) * 0.5;
        (low, high) = (low - half, high + half);
    }
    let bin = |x: f64| (((x - low) / (high - low) * BINS as f64) as usize).min(BINS - 1);
    let (mut got, mut want) = (vec![0u32; BINS], vec![0u32; BINS]);
    each(given, |row, col, x| {
        if x.is_finite() {
            got[bin(f64::from(x))] += 1;
        }
        if let Some(y) = expected.map(|value| value.row(row)[col]).filter(|y| y.is_finite()) {
            want[bin(f64::from(y))] += 1;
        }
    });
    Some(Histogram { low, high, open: (least < low, most > high), got, want: expected.map(|_| want) })
}

/// The rows whose elements are shown: the worst one, the ends of prompt and decoding, and others between.
fn chosen(known: &[usize], shape: Shape, worst: Option<(usize, usize)>, most: usize) -> BTreeSet<usize> {
    let mut rows = BTreeSet::new();
    let ends = [known.first(), known.last()].into_iter().flatten().copied();
    let boundary = [shape.prompt.wrapping_sub(1), shape.prompt];
    let between = (1..most).filter_map(|at| known.get(at * known.len() / most.max(1)).copied());
    let wanted = worst.map(|(row, _)| row).into_iter().chain(ends).chain(boundary).chain(between);
    for row in wanted.filter(|row| known.binary_search(row).is_ok()) {
        if rows.len() < most {
            rows.insert(row);
        }
    }
    rows
}

fn sample(given: Given<'_>, rows: &BTreeSet<usize>) -> Vec<Row> {
    let expected = given.expected;
    let mut found: BTreeMap<usize, Vec<(usize, f32)>> = rows.iter().map(|&row| (row, Vec::new())).collect();
    each(given, |row, col, x| {
        if let Some(elements) = found.get_mut(&row)
            && elements.len() < SHOWN
        {
            elements.push((col, x));
        }
    });
    let shown = found.into_iter().map(|(row, mut elements)| {
        elements.sort_by_key(|&(col, _)| col);
        let in_order = elements.iter().enumerate().all(|(at, &(col, _))| at == col);
        let want = expected.map(|value| Floats(elements.iter().map(|&(col, _)| value.row(row)[col]).collect()));
        let cols = (!in_order).then(|| elements.iter().map(|&(col, _)| col).collect());
        Row { row, cols, got: Floats(elements.into_iter().map(|(_, x)| x).collect()), want }
    });
    shown.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Evidence, Known, Value};

    const BUDGET: Budget = Budget { rows: 3, bars: 4 };

    fn given<'a>(evidence: &'a Evidence, expected: Option<&'a Value>, shape: Shape) -> Given<'a> {
        Given { evidence, expected, counts: &|_, _| true, shape }
    }

    fn shape(rows: usize, width: usize, heads: usize) -> Shape {
        Shape { rows, prompt: rows / 2, width, heads }
    }

    #[test]
    fn residuals_are_by_token_and_by_head() {
        let expected = Value { rows: 2, width: 4, data: vec![1.0; 8] };
        let evidence = Evidence::all(4, vec![1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 2.0]);
        let cell = Cell::new(given(&evidence, Some(&expected), shape(2, 4, 2)), Some((1, 2)), BUDGET);
        assert_eq!(cell.by_row.values.0, [0.0, 0.5f32.sqrt()]);
        assert_eq!(cell.by_head.unwrap().values.0, [0.0, 0.5f32.sqrt()]);
        assert_eq!(cell.worst, Some((1, 2, Floats(vec![2.0, 1.0]))));
        assert_eq!((cell.got.count, cell.got.max, cell.want.unwrap().max), (8, 2.0, 1.0));
    }

    #[test]
    fn both_sides_share_the_bins_and_every_finite_element_is_counted() {
        let expected = Value { rows: 1, width: 100, data: vec![0.0; 100] };
        let mut values = vec![0.0; 100];
        (values[0], values[1]) = (1000.0, f32::NAN);
        let evidence = Evidence::all(100, values);
        let cell = Cell::new(given(&evidence, Some(&expected), shape(1, 100, 1)), None, BUDGET);
        let histogram = cell.histogram.unwrap();
        assert_eq!(histogram.got.iter().sum::<u32>(), 99);
        assert_eq!(histogram.want.unwrap().iter().sum::<u32>(), 100);
        assert_eq!(histogram.open, (false, true), "1000 is further out than five deviations");
        assert_eq!((cell.got.nan, cell.got.zeros), (1, 98));
    }

    #[test]
    fn long_charts_keep_the_largest_of_their_groups() {
        let bars = grouped(vec![f32::NAN, 1.0, 5.0, 2.0, f32::NAN, f32::NAN, 3.0, 1.0], 4);
        assert_eq!(bars.group, 2);
        assert_eq!(bars.values.0[..2], [1.0, 5.0]);
        assert!(bars.values.0[2].is_nan());
        assert_eq!(bars.values.0[3], 3.0);
    }

    #[test]
    fn the_worst_row_is_always_shown() {
        for worst in [0, 7, 19] {
            let evidence = Evidence::all(1, vec![0.5; 20]);
            let cell = Cell::new(given(&evidence, None, shape(20, 1, 1)), Some((worst, 0)), BUDGET);
            assert!(cell.sample.iter().any(|row| row.row == worst) && cell.sample.len() == 3);
        }
    }

    #[test]
    fn what_is_masked_is_neither_counted_nor_shown() {
        let expected = Value { rows: 2, width: 2, data: vec![1.0, 0.0, 1.0, 1.0] };
        let evidence = Evidence::all(2, vec![1.0, f32::NAN, 1.0, 1.0]);
        let masked = Given { counts: &|row, col| col <= row, ..given(&evidence, Some(&expected), shape(2, 2, 1)) };
        let cell = Cell::new(masked, None, BUDGET);
        assert_eq!((cell.by_row.values.0, cell.got.count, cell.got.nan), (vec![0.0, 0.0], 3, 0));
        assert_eq!(cell.sample[0].got.0, [1.0]);
    }

    #[test]
    fn single_elements_keep_their_columns() {
        let points = vec![(0, -1, 9.0), (0, 0, 7.0), (-1, 1, 8.0), (5, 0, 1.0), (0, 9, 1.0)];
        let evidence = Evidence { known: Known::Some(points), ..Evidence::all(3, vec![0.0; 6]) };
        let cell = Cell::new(given(&evidence, None, shape(2, 3, 1)), None, BUDGET);
        let got: Vec<_> = cell.sample.iter().map(|row| (row.row, row.cols.clone(), row.got.0.clone())).collect();
        assert_eq!(got, [(0, Some(vec![0, 2]), vec![7.0, 9.0]), (1, Some(vec![1]), vec![8.0])]);
        assert_eq!(cell.got.count, 3, "what lies outside is left out");
    }
}
