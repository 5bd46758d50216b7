//! A backend that is watched: every operation and every fusion runs on it, and is computed again from its own inputs.
//!
//! Inputs and outputs are read through snapshots, so nothing of the run itself changes. Where the host can't wait for a device
//! they are kept, and read when the run is over ([`Reads`]): the run comes once more then, and is checked with them. A fusion is held against the
//! formulas of what its default body says. What the cache holds is known from what was written into it.

use std::{
    collections::VecDeque,
    future::poll_fn,
    mem,
    task::{Context, Waker},
};

use candor_ops::{KvFormat, KvPlan, Ops, Rope, Step, Tensor};
use candor_quant::Format;

use crate::{
    formulas::{self, Expected, ROUNDING},
    ledger::{Call, Class, Element, FLOOR, Ledger, Place},
    product::{Columns, Output, product, whole},
    states::State,
};

/// A backend and the book on it.
pub(crate) struct Checked<B: Ops> {
    pub(crate) inner: B,
    reads: Reads<B::Snapshot>,
    pub(crate) ledger: Ledger,
    columns: Columns,
    /// Whether inputs of products must not be rounded.
    exact: bool,
    pass: usize,
    pub(crate) layer: Option<usize>,
    /// Positions of the rows in flight.
    pub(crate) positions: Vec<u32>,
}

/// When the backend's values are read.
enum Reads<S> {
    /// At once.
    Now,
    /// When the run is over; nothing is checked until then.
    Later(Vec<(S, How)>),
    /// They were, in this order.
    Known(VecDeque<Vec<f32>>),
}

/// What a snapshot is of.
#[derive(Clone, Copy)]
pub(crate) enum How {
    /// Numbers.
    Values,
    /// Choices: an expert and its weight in turn. Numbers of experts are exact in floats up to 2^24.
    Choices,
    /// The best `k` of rows of `width`: the place and its value in turn. So are places, which no vocabulary has more of.
    Best { width: usize, k: usize },
}

impl How {
    fn read<B: Ops>(self, ops: &mut B, snapshot: &B::Snapshot) -> Vec<f32> {
        let mut pairs = Vec::new();
        match self {
            How::Values => {
                let mut values = Vec::new();
                ops.download(snapshot, &mut values);
                return values;
            }
            How::Choices => ops.chosen(snapshot, &mut pairs),
            How::Best { width, k } => ops.ranked(snapshot, width, k, &mut pairs),
        }
        pairs.into_iter().flat_map(|(place, value)| [place as f32, value]).collect()
    }
}

/// A weight, and the file's bytes of it.
pub(crate) struct Weight<W> {
    pub(crate) inner: W,
    pub(crate) tensor: Tensor,
}

/// A buffer and the width of its rows.
pub(crate) struct Buf<T> {
    pub(crate) inner: T,
    pub(crate) width: usize,
}

/// A cache, and copies of what was written into it.
pub(crate) struct Kv<K> {
    pub(crate) inner: K,
    pub(crate) plan: KvPlan,
    pub(crate) layers: Vec<Written>,
}

/// Keys and values of a layer, `[sequence][position][width]`, and its states.
pub(crate) struct Written {
    pub(crate) keys: Vec<f32>,
    pub(crate) values: Vec<f32>,
    pub(crate) states: [State; 3],
}

/// Choices of experts as the backend has them, and as it tells them: an expert and its weight, a number of them a row.
pub(crate) struct Routes<R> {
    pub(crate) inner: R,
    pub(crate) used: usize,
    pub(crate) chosen: Vec<(u32, f32)>,
}

/// A rotation as the backend has it, and as the model does.
pub(crate) struct Turn<R> {
    pub(crate) inner: R,
    pub(crate) rope: Rope,
}

pub(crate) const RELATIVE: &str = "relative to the element";
pub(crate) const OF_THE_ROW: &str =
    "relative to the largest of the element's block: the file's number, give or take one rounding";
pub(crate) const SUMS: &str = "relative to what is added, without signs";
pub(crate) const PARTS: &str =
    "relative to the element; to its parts without signs where they are taken from each other";
pub(crate) const EXACT: &str = "the same number";
pub(crate) const RANKED: &str = "the same places and values, in the same order";
pub(crate) const STEPS: &str =
    "relative to what is added, without signs; bound from the number of terms, and growing as errors stay in the state";
pub(crate) const PAIRS: &str = "relative to the length of the pair";
pub(crate) const WEIGHTED: &str =
    "relative to the weighted sum without signs; keys and values rounded to the cache's format";
const PRODUCTS: &str =
    "relative to the row; bound from the weights and the rounding of the inputs to the weights' kind";

impl<B: Ops> Checked<B> {
    pub(crate) fn new(inner: B, columns: Columns, exact: bool) -> Self {
        let (ledger, positions) = (Ledger::default(), Vec::new());
        Checked { inner, reads: Reads::Now, ledger, columns, exact, pass: 0, layer: None, positions }
    }

    /// Says which pass comes next.
    pub(crate) fn begin(&mut self, pass: usize) {
        (self.pass, self.layer) = (pass, None);
    }

    pub(crate) fn read(&mut self, x: &Buf<B::Buf>) -> Vec<f32> {
        self.take(How::Values, |inner| inner.snapshot(&x.inner))
    }

    /// Reads a snapshot that is to be made; as many zeros where that comes later.
    pub(crate) fn take(&mut self, how: How, snapshot: impl FnOnce(&mut B) -> B::Snapshot) -> Vec<f32> {
        let inner = &mut self.inner;
        match &mut self.reads {
            Reads::Now => {
                let snapshot = snapshot(inner);
                how.read(inner, &snapshot)
            }
            Reads::Later(kept) => {
                let snapshot = snapshot(inner);
                let zeros = vec![0.0; inner.elements(&snapshot)];
                kept.push((snapshot, how));
                zeros
            }
            Reads::Known(values) => values.pop_front().unwrap_or_default(),
        }
    }

    /// Keeps what is to be read from now on.
    pub(crate) fn keep(&mut self) {
        self.reads = Reads::Later(Vec::new());
    }

    /// Reads what was kept. The same run is checked when it comes again.
    pub(crate) async fn read_kept(&mut self) {
        let Reads::Later(kept) = mem::replace(&mut self.reads, Reads::Now) else { return };
        let (inner, mut kept) = (&mut self.inner, kept);
        // All are on their way before the first is waited for.
        for (snapshot, _) in &mut kept {
            let _ = inner.poll_read(snapshot, &mut Context::from_waker(Waker::noop()));
        }
        let mut values = VecDeque::with_capacity(kept.len());
        for (mut snapshot, how) in kept {
            poll_fn(|cx| inner.poll_read(&mut snapshot, cx)).await;
            values.push_back(how.read(inner, &snapshot));
        }
        self.reads = Reads::Known(values);
    }

    fn checks(&self) -> bool {
        !matches!(self.reads, Reads::Later(_))
    }

    /// The place of an operation with a weight; what follows without one is in the same layer.
    pub(crate) fn at(&mut self, weight: &Tensor) -> Place {
        let stack =
            weight.name.strip_prefix("enc.").or_else(|| weight.name.strip_prefix("dec.")).unwrap_or(&weight.name);
        let layer = stack.strip_prefix("blk.").and_then(|rest| rest.split('.').next()?.parse().ok());
        self.layer = layer;
        Place { weight: Some(weight.name.clone()), ..self.here() }
    }

    pub(crate) fn here(&self) -> Place {
        Place { layer: self.layer, pass: self.pass, ..Place::default() }
    }

    /// Holds `got`, `[rows, width]`, against `expected` of the same order.
    pub(crate) fn compare(
        &mut self,
        (operation, measure): (&str, &'static str),
        place: Place,
        width: usize,
        got: &[f32],
        expected: impl IntoIterator<Item = Expected>,
    ) {
        if !self.checks() {
            return;
        }
        let mut got = got.iter().copied();
        let elements = expected.into_iter().enumerate().map(|(i, expected)| Element {
            row: i / width,
            column: i % width,
            // A row that the backend did not compute is as wrong as one of NaN.
            got: got.next().unwrap_or(f32::NAN),
            expected: expected.value,
            scale: expected.scale,
            bound: expected.bound,
        });
        let class = Class { operation: operation.to_owned(), format: None };
        self.ledger.enter(Call { class, measure, place, positions: &self.positions }, elements, None);
    }

    /// Holds rows that were turned by their positions against what they were before.
    pub(crate) fn compare_turned(
        &mut self,
        x: &Buf<B::Buf>,
        before: &[f32],
        (rope, head_dim): (&Rope, usize),
        step: &Step<'_>,
    ) {
        let got = self.read(x);
        let rows = before.chunks_exact(x.width).zip(step.positions);
        let expected = rows.flat_map(|(row, &position)| {
            row.chunks_exact(head_dim).flat_map(move |head| formulas::turned(head, rope, position))
        });
        self.compare(("rope", PAIRS), self.here(), x.width, &got, expected);
    }

    /// Holds a product, `[rows, outputs]`, against the formula. `before` is what it was added to.
    pub(crate) fn compare_product(
        &mut self,
        operation: &str,
        x: &[f32],
        w: &Tensor,
        before: Option<&[f32]>,
        got: &[f32],
    ) {
        let place = self.at(w);
        if !self.checks() {
            return;
        }
        let columns = self.columns.of(w.rows);
        let mut expected = product(w, x, &columns, self.exact);
        let rows = x.len() / w.cols.max(1);
        let at = |i: usize| (i % rows) * w.rows + columns[i / rows];
        if let Some(before) = before {
            for (i, output) in expected.iter_mut().enumerate() {
                let added = f64::from(before.get(at(i)).copied().unwrap_or(f32::NAN));
                let slack = ROUNDING * (added.abs() + output.value.abs());
                output.value += added;
                output.allowed += slack;
                output.summing += slack;
            }
        }
        let value = |i: usize| got.get(at(i)).copied().unwrap_or(f32::NAN);
        let scales = row_scales(&expected, rows);
        let elements = expected.iter().enumerate().map(|(i, output)| {
            let scale = scales[i % rows];
            Element {
                row: i % rows,
                column: columns[i / rows],
                got: value(i),
                expected: output.value,
                scale,
                bound: output.allowed / scale.max(FLOOR),
            }
        });
        let whole = whole((0..expected.len()).map(value), &expected);
        let class = Class { operation: operation.to_owned(), format: Some(w.format.name().to_owned()) };
        let call = Call { class, measure: PRODUCTS, place, positions: &self.positions };
        self.ledger.enter(call, elements, Some(whole));
    }
}

/// Root mean square of each row of a product, `[columns, rows]`.
fn row_scales(expected: &[Output], rows: usize) -> Vec<f64> {
    let mut scales = vec![0.0; rows];
    for (i, output) in expected.iter().enumerate() {
        scales[i % rows] += output.value * output.value;
    }
    let count = (expected.len() / rows.max(1)).max(1) as f64;
    scales.iter_mut().for_each(|scale| *scale = f64::sqrt(*scale / count));
    scales
}

/// All numbers of a small weight, row by row.
pub(crate) fn numbers(w: &Tensor) -> Vec<f32> {
    let mut out = vec![0.0; w.rows * w.cols];
    let rows = out.chunks_exact_mut(w.cols.max(1)).enumerate();
    rows.for_each(|(row, out)| w.format.decode(w.row(row), out));
    out
}

/// A row of a table, each number with the largest magnitude of its block.
pub(crate) fn table_row(table: &Tensor, row: usize) -> Vec<(f32, f32)> {
    let mut numbers = vec![0.0; table.cols];
    table.format.decode(table.row(row), &mut numbers);
    let blocks = numbers.chunks(table.format.block_len());
    let largest = |block: &[f32]| block.iter().fold(0f32, |most, x| most.max(x.abs()));
    blocks.flat_map(|block| block.iter().map(move |&x| (x, largest(block)))).collect()
}

/// Some rows of a matrix as a matrix of their own.
pub(crate) fn part(w: &Tensor, rows: std::ops::Range<usize>) -> Tensor {
    let stride = w.bytes.len() / w.rows.max(1);
    Tensor { rows: rows.len(), bytes: w.bytes.slice(rows.start * stride..rows.end * stride), ..w.clone() }
}

/// Puts `x` into `out` as a cache of this format holds it.
fn store(out: &mut [f32], x: &[f32], format: Format) {
    let mut bytes = vec![0; format.block_bytes()];
    for (x, out) in x.chunks_exact(format.block_len()).zip(out.chunks_exact_mut(format.block_len())) {
        // The formats of a cache have encoders.
        if format.encode_direct(x, &mut bytes).is_ok() {
            format.decode(&bytes, out);
        }
    }
}

impl<K> Kv<K> {
    /// Index of a position's row.
    pub(crate) fn row(&self, sequence: u32, position: u32) -> usize {
        sequence as usize * self.plan.context + position as usize
    }

    /// Keeps rows of keys and of values, and their widths, as a cache of its formats does.
    pub(crate) fn keep(
        &mut self,
        layer: usize,
        (keys, key_width): (&[f32], usize),
        (values, value_width): (&[f32], usize),
        step: &Step<'_>,
    ) {
        for (t, (&sequence, &position)) in step.sequences.iter().zip(step.positions).enumerate() {
            let (row, formats) = (self.row(sequence, position), [self.plan.keys, self.plan.values]);
            let Written { keys: kept_keys, values: kept_values, .. } = &mut self.layers[layer];
            let copy = |out: &mut [f32], x: &[f32], width: usize, format: KvFormat| {
                store(&mut out[row * width..][..width], &x[t * width..][..width], format.format());
            };
            copy(kept_keys, keys, key_width, formats[0]);
            copy(kept_values, values, value_width, formats[1]);
        }
    }

    /// Whether what is read may differ from what was written.
    pub(crate) fn rounds(&self) -> bool {
        [self.plan.keys, self.plan.values] != [KvFormat::F32; 2]
    }
}
