//! A backend that is watched: every operation and every fusion runs on it, and is computed again from its own inputs.
//!
//! Inputs and outputs are read through snapshots, so nothing of the run itself changes. A fusion is held against the
//! formulas of what its default body says. What the cache holds is known from what was written into it.

use candor::{
    gguf::Format,
    ops::{
        Attention, Columns as Copied, Error, KvFormat, KvPlan, Norm, Ops, Prims, Recurrence, Rope, Router, Step,
        Tensor, Unary,
    },
};

use super::{
    formulas::{self, CHAIN, Expected, HALF, ROUNDING, Seen},
    ledger::{Call, Class, Element, Ledger, Place},
    product::{Columns, Output, product, whole},
};

/// A backend and the book on it.
pub(super) struct Checked<B> {
    inner: B,
    pub(super) ledger: Ledger,
    columns: Columns,
    pass: usize,
    layer: Option<usize>,
    /// Positions of the rows in flight.
    positions: Vec<u32>,
}

/// A weight, and the file's bytes of it.
pub(super) struct Weight<W> {
    inner: W,
    tensor: Tensor,
}

/// A buffer and the width of its rows.
pub(super) struct Buf<T> {
    inner: T,
    width: usize,
}

/// A cache, and copies of what was written into it.
pub(super) struct Kv<K> {
    inner: K,
    plan: KvPlan,
    layers: Vec<Written>,
}

/// Keys and values of a layer, `[sequence][position][width]`.
struct Written {
    keys: Vec<f32>,
    values: Vec<f32>,
}

/// A rotation as the backend has it, and as the model does.
pub(super) struct Turn<R> {
    inner: R,
    rope: Rope,
}

const RELATIVE: &str = "relative to the element";
const OF_THE_ROW: &str = "relative to the largest of the element's block: the file's number, give or take one rounding";
const SUMS: &str = "relative to what is added, without signs";
const PAIRS: &str = "relative to the length of the pair";
const WEIGHTED: &str = "relative to the weighted sum without signs; keys and values rounded to the cache's format";
const PRODUCTS: &str =
    "relative to the row; bound from the weights and the rounding of the inputs to the weights' kind";

impl<B: Ops> Checked<B> {
    pub(super) fn new(inner: B, columns: Columns) -> Self {
        Checked { inner, ledger: Ledger::default(), columns, pass: 0, layer: None, positions: Vec::new() }
    }

    /// Says which pass comes next.
    pub(super) fn begin(&mut self, pass: usize) {
        (self.pass, self.layer) = (pass, None);
    }

    fn read(&mut self, x: &Buf<B::Buf>) -> Vec<f32> {
        let mut out = Vec::new();
        let snapshot = self.inner.snapshot(&x.inner);
        self.inner.download(&snapshot, &mut out);
        out
    }

    /// The place of an operation with a weight; what follows without one is in the same layer.
    fn at(&mut self, weight: &Tensor) -> Place {
        let layer = weight.name.strip_prefix("blk.").and_then(|rest| rest.split('.').next()?.parse().ok());
        self.layer = layer;
        Place { weight: Some(weight.name.clone()), ..self.here() }
    }

    fn here(&self) -> Place {
        Place { layer: self.layer, pass: self.pass, ..Place::default() }
    }

    /// Holds `got`, `[rows, width]`, against `expected` of the same order.
    fn compare(
        &mut self,
        (operation, measure): (&str, &'static str),
        place: Place,
        width: usize,
        got: &[f32],
        expected: impl IntoIterator<Item = Expected>,
    ) {
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

    /// Holds a product, `[rows, outputs]`, against the formula. `before` is what it was added to.
    fn compare_product(&mut self, operation: &str, x: &[f32], w: &Tensor, before: Option<&[f32]>, got: &[f32]) {
        let place = self.at(w);
        let columns = self.columns.of(w.rows);
        let mut expected = product(w, x, &columns);
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
                bound: output.allowed / scale.max(super::ledger::FLOOR),
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

/// A vector of the file.
fn vector(w: &Tensor) -> Vec<f32> {
    let mut out = vec![0.0; w.cols];
    w.format.decode(w.row(0), &mut out);
    out
}

/// Puts `x` into `out` as a cache of this format holds it.
fn store(out: &mut [f32], x: &[f32], format: Format) {
    let mut bytes = vec![0; format.block_bytes()];
    for (x, out) in x.chunks_exact(format.block_len()).zip(out.chunks_exact_mut(format.block_len())) {
        // The formats of a cache have encoders.
        if format.encode(x, &mut bytes).is_ok() {
            format.decode(&bytes, out);
        }
    }
}

impl<B: Ops> Prims for Checked<B> {
    type Weight = Weight<B::Weight>;
    type Buf = Buf<B::Buf>;
    type Kv = Kv<B::Kv>;
    type Rope = Turn<B::Rope>;
    type Snapshot = B::Snapshot;
    type Routes = B::Routes;

    const WITHOUT: &'static [&'static str] = B::WITHOUT;

    fn weight(&mut self, tensor: Tensor) -> Result<Self::Weight, Error> {
        Ok(Weight { inner: self.inner.weight(tensor.clone())?, tensor })
    }

    fn buffer(&mut self, rows: usize, width: usize) -> Self::Buf {
        Buf { inner: self.inner.buffer(rows, width), width }
    }

    fn kv(&mut self, plan: &KvPlan) -> Self::Kv {
        let layers = plan.layers.iter().map(|layer| {
            let rows = plan.sequences * plan.context * layer.kv_heads;
            Written { keys: vec![f32::NAN; rows * layer.key_dim], values: vec![f32::NAN; rows * layer.value_dim] }
        });
        Kv { inner: self.inner.kv(plan), layers: layers.collect(), plan: plan.clone() }
    }

    fn routes(&mut self, rows: usize, used: usize) -> B::Routes {
        self.inner.routes(rows, used)
    }

    fn rope_table(&mut self, rope: Rope) -> Self::Rope {
        Turn { inner: self.inner.rope_table(rope.clone()), rope }
    }

    fn embed(&mut self, out: &mut Self::Buf, table: &Self::Weight, step: &Step) {
        self.positions = step.positions.to_vec();
        let place = self.at(&table.tensor);
        self.inner.embed(&mut out.inner, &table.inner, step);
        let got = self.read(out);
        let (tensor, width) = (&table.tensor, out.width);
        let mut row = vec![0.0; width];
        let mut expected = Vec::with_capacity(got.len());
        for &token in step.tokens {
            tensor.format.decode(tensor.row(token as usize), &mut row);
            for block in row.chunks(tensor.format.block_len()) {
                let scale = block.iter().fold(0f32, |most, x| most.max(x.abs()));
                let element = |&x: &f32| Expected { value: x.into(), scale: scale.into(), bound: 1.0 / 4_194_304.0 };
                expected.extend(block.iter().map(element));
            }
        }
        self.compare(("embed", OF_THE_ROW), place, width, &got, expected);
    }

    fn rms_norm(&mut self, out: &mut Self::Buf, x: &Self::Buf, w: &Self::Weight, eps: f32) {
        let place = self.at(&w.tensor);
        let before = self.read(x);
        self.inner.rms_norm(&mut out.inner, &x.inner, &w.inner, eps);
        let (got, w) = (self.read(out), vector(&w.tensor));
        let expected = before.chunks_exact(w.len()).flat_map(|row| formulas::norm(row, &w, eps));
        self.compare(("rms_norm", RELATIVE), place, w.len(), &got, expected);
    }

    fn norm(&mut self, x: &mut Self::Buf, norm: Norm, weight: Option<&Self::Weight>, bias: Option<&Self::Weight>) {
        let (Some(w), None) = (weight, bias) else {
            let weights = (weight.map(|w| &w.inner), bias.map(|w| &w.inner));
            return self.inner.norm(&mut x.inner, norm, weights.0, weights.1);
        };
        let place = self.at(&w.tensor);
        let before = self.read(x);
        self.inner.norm(&mut x.inner, norm, Some(&w.inner), None);
        let (got, w) = (self.read(x), vector(&w.tensor));
        let expected = before.chunks_exact(norm.run).flat_map(|head| formulas::norm(head, &w, norm.eps));
        self.compare(("head_norm", RELATIVE), place, x.width, &got, expected);
    }

    fn matmul(&mut self, out: &mut Self::Buf, x: &Self::Buf, w: &Self::Weight) {
        let before = self.read(x);
        self.inner.matmul(&mut out.inner, &x.inner, &w.inner);
        let got = self.read(out);
        self.compare_product("matmul", &before, &w.tensor, None, &got);
    }

    fn matmul_rows(&mut self, out: &mut Self::Buf, x: &Self::Buf, w: &Self::Weight, step: &Step) {
        let before = self.read(x);
        self.inner.matmul_rows(&mut out.inner, &x.inner, &w.inner, step);
        let got = self.read(out);
        let cols = w.tensor.cols;
        let rows = step.outputs.iter().flat_map(|&row| &before[row as usize * cols..][..cols]);
        let picked: Vec<f32> = rows.copied().collect();
        self.positions = step.outputs.iter().map(|&row| step.positions[row as usize]).collect();
        self.compare_product("matmul_rows", &picked, &w.tensor, None, &got);
    }

    fn add_bias(&mut self, x: &mut Self::Buf, bias: &Self::Weight) {
        let place = self.at(&bias.tensor);
        let before = self.read(x);
        self.inner.add_bias(&mut x.inner, &bias.inner);
        let (got, bias) = (self.read(x), vector(&bias.tensor));
        let rows = before.chunks_exact(bias.len());
        let expected = rows.flat_map(|row| row.iter().zip(&bias).map(|(&x, &b)| formulas::sum(x, b)));
        self.compare(("add_bias", SUMS), place, bias.len(), &got, expected);
    }

    fn rope(&mut self, x: &mut Self::Buf, rope: &Self::Rope, head_dim: usize, step: &Step) {
        let before = self.read(x);
        self.inner.rope(&mut x.inner, &rope.inner, head_dim, step);
        let got = self.read(x);
        let rows = before.chunks_exact(x.width).zip(step.positions);
        let expected = rows.flat_map(|(row, &position)| {
            row.chunks_exact(head_dim).flat_map(move |head| formulas::turned(head, &rope.rope, position))
        });
        self.compare(("rope", PAIRS), self.here(), x.width, &got, expected);
    }

    fn kv_write(&mut self, kv: &mut Self::Kv, layer: usize, k: &Self::Buf, v: &Self::Buf, step: &Step) {
        self.layer = Some(layer);
        let (keys, values) = (self.read(k), self.read(v));
        self.inner.kv_write(&mut kv.inner, layer, &k.inner, &v.inner, step);
        for (t, (&sequence, &position)) in step.sequences.iter().zip(step.positions).enumerate() {
            let (row, formats) = (kv.row(sequence, position), [kv.plan.keys, kv.plan.values]);
            let Written { keys: kept_keys, values: kept_values } = &mut kv.layers[layer];
            let copy = |out: &mut [f32], x: &[f32], width: usize, format: KvFormat| {
                store(&mut out[row * width..][..width], &x[t * width..][..width], format.format());
            };
            copy(kept_keys, &keys, k.width, formats[0]);
            copy(kept_values, &values, v.width, formats[1]);
        }
    }

    fn attend(
        &mut self,
        out: &mut Self::Buf,
        q: &Self::Buf,
        kv: &Self::Kv,
        layer: usize,
        attention: Attention<'_, Self::Weight>,
        step: &Step,
    ) {
        self.layer = Some(layer);
        let queries = self.read(q);
        let heads = attention.heads;
        self.inner.attend(&mut out.inner, &q.inner, &kv.inner, layer, attention.map(|w| &w.inner), step);
        let got = self.read(out);
        let (key_width, value_width) = (heads.kv_heads * heads.key_dim, heads.kv_heads * heads.value_dim);
        let rounded = [kv.plan.keys, kv.plan.values] != [KvFormat::F32; 2];
        let places = step.sequences.iter().zip(step.positions);
        let rows = queries.chunks_exact(q.width).zip(places);
        let Written { keys, values } = &kv.layers[layer];
        let expected = rows.flat_map(|(query, (&sequence, &position))| {
            let (first, last) = (kv.row(sequence, 0), kv.row(sequence, position) + 1);
            let seen = Seen {
                keys: &keys[first * key_width..last * key_width],
                values: &values[first * value_width..last * value_width],
                bound: if rounded { HALF } else { CHAIN },
            };
            formulas::attended(query, &seen, heads)
        });
        self.compare(("kv_write+attend", WEIGHTED), self.here(), out.width, &got, expected);
    }

    fn unary(&mut self, x: &mut Self::Buf, f: Unary) {
        let before = self.read(x);
        self.inner.unary(&mut x.inner, f);
        let got = self.read(x);
        let expected = before.iter().map(|&x| formulas::relative(f.at(x.into()), CHAIN));
        let name = if f == Unary::Silu { "silu" } else { "unary" };
        self.compare((name, RELATIVE), self.here(), x.width, &got, expected);
    }

    fn mul(&mut self, x: &mut Self::Buf, y: &Self::Buf) {
        let (before, by) = (self.read(x), self.read(y));
        self.inner.mul(&mut x.inner, &y.inner);
        let got = self.read(x);
        let expected = before.iter().zip(&by);
        let expected = expected.map(|(&x, &y)| formulas::relative(f64::from(x) * f64::from(y), ROUNDING));
        self.compare(("mul", RELATIVE), self.here(), x.width, &got, expected);
    }

    fn add(&mut self, x: &mut Self::Buf, y: &Self::Buf) {
        let (before, by) = (self.read(x), self.read(y));
        self.inner.add(&mut x.inner, &y.inner);
        let got = self.read(x);
        let expected = before.iter().zip(&by).map(|(&x, &y)| formulas::sum(x, y));
        self.compare(("add", SUMS), self.here(), x.width, &got, expected);
    }

    fn copy(&mut self, out: &mut Self::Buf, x: &Self::Buf, columns: Copied) {
        self.inner.copy(&mut out.inner, &x.inner, columns);
    }
    fn add_positions(&mut self, x: &mut Self::Buf, table: &Self::Weight, step: &Step) {
        self.inner.add_positions(&mut x.inner, &table.inner, step);
    }
    fn mul_columns(&mut self, x: &mut Self::Buf, w: &Self::Weight) {
        self.inner.mul_columns(&mut x.inner, &w.inner);
    }
    fn mul_groups(&mut self, x: &mut Self::Buf, y: &Self::Buf) {
        self.inner.mul_groups(&mut x.inner, &y.inner);
    }
    fn dot_groups(&mut self, out: &mut Self::Buf, x: &Self::Buf, y: &Self::Buf) {
        self.inner.dot_groups(&mut out.inner, &x.inner, &y.inner);
    }
    fn matmul_heads(&mut self, out: &mut Self::Buf, x: &Self::Buf, w: &Self::Weight, heads: usize) {
        self.inner.matmul_heads(&mut out.inner, &x.inner, &w.inner, heads);
    }
    fn conv(
        &mut self,
        out: &mut Self::Buf,
        kv: &mut Self::Kv,
        place: (usize, usize),
        x: &Self::Buf,
        w: &Self::Weight,
        step: &Step,
    ) {
        self.inner.conv(&mut out.inner, &mut kv.inner, place, &x.inner, &w.inner, step);
    }
    fn recur(
        &mut self,
        out: &mut Self::Buf,
        kv: &mut Self::Kv,
        place: (usize, usize),
        inputs: Recurrence<'_, Self::Weight, Self::Buf>,
        step: &Step,
    ) {
        self.inner.recur(&mut out.inner, &mut kv.inner, place, inputs.map(|w| &w.inner, |x| &x.inner), step);
    }
    fn route(&mut self, routes: &mut B::Routes, logits: &Self::Buf, bias: Option<&Self::Weight>, router: Router) {
        self.inner.route(routes, &logits.inner, bias.map(|w| &w.inner), router);
    }
    fn matmul_experts(&mut self, out: &mut Self::Buf, x: &Self::Buf, w: &Self::Weight, routes: &B::Routes) {
        self.inner.matmul_experts(&mut out.inner, &x.inner, &w.inner, routes);
    }
    fn add_bias_experts(&mut self, x: &mut Self::Buf, bias: &Self::Weight, routes: &B::Routes) {
        self.inner.add_bias_experts(&mut x.inner, &bias.inner, routes);
    }
    fn scale_experts(&mut self, x: &mut Self::Buf, routes: &B::Routes) {
        self.inner.scale_experts(&mut x.inner, routes);
    }
    fn sum_experts(&mut self, out: &mut Self::Buf, x: &Self::Buf, routes: &B::Routes) {
        self.inner.sum_experts(&mut out.inner, &x.inner, routes);
    }

    fn upload(&mut self, x: &mut Self::Buf, rows: usize, values: &[f32]) {
        self.inner.upload(&mut x.inner, rows, values);
    }

    fn snapshot(&mut self, x: &Self::Buf) -> B::Snapshot {
        self.inner.snapshot(&x.inner)
    }

    fn download(&mut self, snapshot: &B::Snapshot, out: &mut Vec<f32>) {
        self.inner.download(snapshot, out);
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.inner.finish()
    }
}

impl<B: Ops> Ops for Checked<B> {
    fn swiglu(&mut self, gate: &mut Self::Buf, up: &Self::Buf) {
        let (before, by) = (self.read(gate), self.read(up));
        self.inner.swiglu(&mut gate.inner, &up.inner);
        let got = self.read(gate);
        let expected = before.iter().zip(&by);
        let expected = expected.map(|(&x, &y)| formulas::relative(formulas::silu(x) * f64::from(y), CHAIN));
        self.compare(("swiglu", RELATIVE), self.here(), gate.width, &got, expected);
    }

    fn matmul_add(&mut self, x: &mut Self::Buf, h: &Self::Buf, w: &Self::Weight, product: &mut Self::Buf) {
        let (before, input) = (self.read(x), self.read(h));
        self.inner.matmul_add(&mut x.inner, &h.inner, &w.inner, &mut product.inner);
        let got = self.read(x);
        self.compare_product("matmul_add", &input, &w.tensor, Some(&before), &got);
    }

    fn matmul2(&mut self, a: (&mut Self::Buf, &Self::Weight), b: (&mut Self::Buf, &Self::Weight), x: &Self::Buf) {
        let before = self.read(x);
        self.inner.matmul2((&mut a.0.inner, &a.1.inner), (&mut b.0.inner, &b.1.inner), &x.inner);
        for (out, w) in [a, b] {
            let got = self.read(out);
            self.compare_product("matmul2", &before, &w.tensor, None, &got);
        }
    }

    fn matmul3(
        &mut self,
        a: (&mut Self::Buf, &Self::Weight),
        b: (&mut Self::Buf, &Self::Weight),
        c: (&mut Self::Buf, &Self::Weight),
        x: &Self::Buf,
    ) {
        let before = self.read(x);
        let [q, k, v] = [&mut a.0.inner, &mut b.0.inner, &mut c.0.inner];
        self.inner.matmul3((q, &a.1.inner), (k, &b.1.inner), (v, &c.1.inner), &x.inner);
        for (out, w) in [a, b, c] {
            let got = self.read(out);
            self.compare_product("matmul3", &before, &w.tensor, None, &got);
        }
    }
}

impl<K> Kv<K> {
    /// Index of a position's row.
    fn row(&self, sequence: u32, position: u32) -> usize {
        sequence as usize * self.plan.context + position as usize
    }
}
