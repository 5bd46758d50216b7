//! Every primitive on the backend that is watched, held against its formula.

use std::task::{Context, Poll};

use candor_ops::{
    Attention, Columns as Copied, Decay, Error, KvPlan, Norm, NormKind, Ops, Prims, Recurrence, Relative, Rope, Router,
    Step, Tensor, Unary, sequence_len,
};

use crate::{
    attended::{Seen, attended},
    checked::{
        Buf, Checked, EXACT, How, Kv, OF_THE_ROW, PARTS, RELATIVE, Routes, STEPS, SUMS, Turn, WEIGHTED, Weight,
        Written, numbers, part, table_row,
    },
    formulas::{self, CHAIN, Expected, HALF, ROUNDING},
    states::{self, State},
};

impl<B: Ops> Prims for Checked<B> {
    type Weight = Weight<B::Weight>;
    type Buf = Buf<B::Buf>;
    type Kv = Kv<B::Kv>;
    type Rope = Turn<B::Rope>;
    type Snapshot = B::Snapshot;
    type Routes = Routes<B::Routes>;

    const WITHOUT: &'static [&'static str] = B::WITHOUT;
    const READS_WEIGHTS: bool = B::READS_WEIGHTS;

    fn weight(&mut self, tensor: Tensor) -> Result<Self::Weight, Error> {
        Ok(Weight { inner: self.inner.weight(tensor.clone())?, tensor })
    }

    fn buffer(&mut self, rows: usize, width: usize) -> Self::Buf {
        Buf { inner: self.inner.buffer(rows, width), width }
    }

    fn kv(&mut self, plan: &KvPlan) -> Self::Kv {
        let layers = plan.layers.iter().map(|layer| {
            let rows = plan.sequences * plan.context * layer.kv_heads;
            Written {
                keys: vec![f32::NAN; rows * layer.key_dim],
                values: vec![f32::NAN; rows * layer.value_dim],
                states: layer.states.map(|len| State::new(plan.sequences * len)),
            }
        });
        Kv { inner: self.inner.kv(plan), layers: layers.collect(), plan: plan.clone() }
    }

    fn routes(&mut self, rows: usize, used: usize) -> Self::Routes {
        Routes { inner: self.inner.routes(rows, used), used, chosen: Vec::new() }
    }

    fn rope_table(&mut self, rope: Rope) -> Self::Rope {
        Turn { inner: self.inner.rope_table(rope.clone()), rope }
    }

    fn embed(&mut self, out: &mut Self::Buf, table: &Self::Weight, step: &Step) {
        self.positions = step.positions.to_vec();
        let place = self.at(&table.tensor);
        self.inner.embed(&mut out.inner, &table.inner, step);
        let got = self.read(out);
        let rows = step.tokens.iter().flat_map(|&token| table_row(&table.tensor, token as usize));
        let expected =
            rows.map(|(x, largest)| Expected { value: x.into(), scale: largest.into(), bound: 1.0 / 4_194_304.0 });
        let width = out.width;
        self.compare(("embed", OF_THE_ROW), place, width, &got, expected);
    }

    fn rms_norm(&mut self, out: &mut Self::Buf, x: &Self::Buf, w: &Self::Weight, eps: f32) {
        let place = self.at(&w.tensor);
        let before = self.read(x);
        self.inner.rms_norm(&mut out.inner, &x.inner, &w.inner, eps);
        let (got, w) = (self.read(out), numbers(&w.tensor));
        let norm = Norm { kind: NormKind::Rms, run: w.len(), eps };
        let expected = formulas::norm(&before, norm, Some(&w), None);
        self.compare(("rms_norm", RELATIVE), place, w.len(), &got, expected);
    }

    fn norm(&mut self, x: &mut Self::Buf, norm: Norm, weight: Option<&Self::Weight>, bias: Option<&Self::Weight>) {
        let place = match weight.or(bias) {
            Some(w) => self.at(&w.tensor),
            None => self.here(),
        };
        let before = self.read(x);
        self.inner.norm(&mut x.inner, norm, weight.map(|w| &w.inner), bias.map(|b| &b.inner));
        let got = self.read(x);
        let [w, b] = [weight, bias].map(|w| w.map(|w| numbers(&w.tensor)));
        let rows = before.chunks_exact(x.width);
        let expected = rows.flat_map(|row| formulas::norm(row, norm, w.as_deref(), b.as_deref()));
        let class = match (norm.kind, weight, bias) {
            (NormKind::Rms, Some(_), None) => ("head_norm", RELATIVE),
            _ => ("norm", PARTS),
        };
        self.compare(class, place, x.width, &got, expected);
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
        let (got, bias) = (self.read(x), numbers(&bias.tensor));
        let rows = before.chunks_exact(bias.len());
        let expected = rows.flat_map(|row| row.iter().zip(&bias).map(|(&x, &b)| formulas::sum(x, b)));
        self.compare(("add_bias", SUMS), place, bias.len(), &got, expected);
    }

    fn rope(&mut self, x: &mut Self::Buf, rope: &Self::Rope, head_dim: usize, step: &Step) {
        let before = self.read(x);
        self.inner.rope(&mut x.inner, &rope.inner, head_dim, step);
        self.compare_turned(x, &before, (&rope.rope, head_dim), step);
    }

    fn kv_write(&mut self, kv: &mut Self::Kv, layer: usize, k: &Self::Buf, v: &Self::Buf, step: &Step) {
        // A cache may have more layers than the model, or fewer: a layer's weights come first and say which it is.
        self.layer = self.layer.or(Some(layer));
        let (keys, values) = (self.read(k), self.read(v));
        self.inner.kv_write(&mut kv.inner, layer, &k.inner, &v.inner, step);
        kv.keep(layer, (&keys, k.width), (&values, v.width), step);
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
        self.layer = self.layer.or(Some(layer));
        let queries = self.read(q);
        let heads = attention.heads;
        self.inner.attend(&mut out.inner, &q.inner, &kv.inner, layer, attention.map(|w| &w.inner), step);
        let got = self.read(out);
        let [sinks, table] =
            [attention.sinks, attention.relative.map(|relative| relative.table)].map(|w| w.map(|w| numbers(&w.tensor)));
        let relative = attention.relative.zip(table.as_ref());
        let relative = relative.map(|(Relative { buckets, most, .. }, table)| Relative { table, buckets, most });
        let Attention { mask, soft_cap, alibi, .. } = attention;
        let attention = Attention { heads, mask, soft_cap, alibi, sinks: sinks.as_ref(), relative };
        let (key_width, value_width) = (heads.kv_heads * heads.key_dim, heads.kv_heads * heads.value_dim);
        let Written { keys, values, .. } = &kv.layers[layer];
        let rows = queries.chunks_exact(q.width).zip(step.sequences.iter().zip(step.positions));
        let expected = rows.flat_map(|(query, (&sequence, &position))| {
            let (first, len) = (kv.row(sequence, 0), sequence_len(step, sequence));
            let seen = Seen {
                keys: &keys[first * key_width..(first + len) * key_width],
                values: &values[first * value_width..(first + len) * value_width],
                len,
                bound: if kv.rounds() { HALF } else { CHAIN },
            };
            attended(query, position as usize, &seen, &attention)
        });
        self.compare(("kv_write+attend", WEIGHTED), self.here(), out.width, &got, expected);
    }

    fn unary(&mut self, x: &mut Self::Buf, f: Unary) {
        let before = self.read(x);
        self.inner.unary(&mut x.inner, f);
        let got = self.read(x);
        let expected = before.iter().map(|&x| formulas::applied(f, x));
        let class = if f == Unary::Silu { ("silu", RELATIVE) } else { ("unary", PARTS) };
        self.compare(class, self.here(), x.width, &got, expected);
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
        let (before, input) = (self.read(out), self.read(x));
        self.inner.copy(&mut out.inner, &x.inner, columns);
        let (mut got, width) = (self.read(out), out.width);
        let rows = input.len() / x.width;
        // What is not copied stays; what a buffer held for another number of rows is nobody's.
        let mut expected = if before.len() == rows * width { before } else { got.clone() };
        expected.resize(rows * width, f32::NAN);
        got.truncate(rows * width);
        let Copied { groups, len, from, to } = columns;
        for (row, x) in expected.chunks_exact_mut(width).zip(input.chunks_exact(x.width)) {
            for g in 0..groups {
                row[to.0 + g * to.1..][..len].copy_from_slice(&x[from.0 + g * from.1..][..len]);
            }
        }
        let expected = expected.into_iter().map(|x| formulas::relative(x.into(), 0.0));
        self.compare(("copy", EXACT), self.here(), width, &got, expected);
    }

    fn add_positions(&mut self, x: &mut Self::Buf, table: &Self::Weight, step: &Step) {
        let place = self.at(&table.tensor);
        let before = self.read(x);
        self.inner.add_positions(&mut x.inner, &table.inner, step);
        let got = self.read(x);
        let rows = before.chunks_exact(x.width).zip(step.positions);
        let expected = rows.flat_map(|(row, &position)| {
            let table = table_row(&table.tensor, position as usize);
            row.iter().zip(table).map(|(&x, y)| formulas::sum_of_table(x, y)).collect::<Vec<_>>()
        });
        self.compare(("add_positions", SUMS), place, x.width, &got, expected);
    }

    fn mul_columns(&mut self, x: &mut Self::Buf, w: &Self::Weight) {
        let place = self.at(&w.tensor);
        let before = self.read(x);
        self.inner.mul_columns(&mut x.inner, &w.inner);
        let (got, w) = (self.read(x), numbers(&w.tensor));
        let expected = before.iter().zip(w.iter().cycle());
        let expected = expected.map(|(&x, &w)| formulas::relative(f64::from(x) * f64::from(w), ROUNDING));
        self.compare(("mul_columns", RELATIVE), place, x.width, &got, expected);
    }

    fn mul_groups(&mut self, x: &mut Self::Buf, y: &Self::Buf) {
        let (before, by) = (self.read(x), self.read(y));
        self.inner.mul_groups(&mut x.inner, &y.inner);
        let got = self.read(x);
        let groups = before.chunks_exact(x.width / y.width).zip(&by);
        let expected = groups.flat_map(|(group, &y)| {
            group.iter().map(move |&x| formulas::relative(f64::from(x) * f64::from(y), ROUNDING))
        });
        self.compare(("mul_groups", RELATIVE), self.here(), x.width, &got, expected);
    }

    fn dot_groups(&mut self, out: &mut Self::Buf, x: &Self::Buf, y: &Self::Buf) {
        let (a, b) = (self.read(x), self.read(y));
        self.inner.dot_groups(&mut out.inner, &x.inner, &y.inner);
        let (got, len) = (self.read(out), x.width / out.width);
        let expected = a.chunks_exact(len).zip(b.chunks_exact(len)).map(|(a, b)| formulas::dot(a, b));
        self.compare(("dot_groups", SUMS), self.here(), out.width, &got, expected);
    }

    fn matmul_heads(&mut self, out: &mut Self::Buf, x: &Self::Buf, w: &Self::Weight, heads: usize) {
        let before = self.read(x);
        self.inner.matmul_heads(&mut out.inner, &x.inner, &w.inner, heads);
        let got = self.read(out);
        let (outputs, cols) = (out.width / heads, w.tensor.cols);
        let columns = |all: &[f32], width: usize, first: usize, len: usize| -> Vec<f32> {
            all.chunks_exact(width).flat_map(|row| &row[first..first + len]).copied().collect()
        };
        for h in 0..heads {
            let x = columns(&before, x.width, h * cols, cols);
            let got = columns(&got, out.width, h * outputs, outputs);
            let w = part(&w.tensor, h * outputs..(h + 1) * outputs);
            self.compare_product("matmul_heads", &x, &w, None, &got);
        }
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
        let at = self.at(&w.tensor);
        let before = self.read(x);
        self.inner.conv(&mut out.inner, &mut kv.inner, place, &x.inner, &w.inner, step);
        let got = self.read(out);
        let state = &mut kv.layers[place.0].states[place.1];
        let expected = states::convolved(state, &before, (&numbers(&w.tensor), w.tensor.cols), step);
        self.compare(("conv", STEPS), at, out.width, &got, expected);
    }

    fn recur(
        &mut self,
        out: &mut Self::Buf,
        kv: &mut Self::Kv,
        place: (usize, usize),
        inputs: Recurrence<'_, Self::Weight, Self::Buf>,
        step: &Step,
    ) {
        self.layer = Some(place.0);
        let read: Vec<Vec<f32>> = inputs.buffers().into_iter().map(|x| self.read(x)).collect();
        self.inner.recur(&mut out.inner, &mut kv.inner, place, inputs.map(|w| &w.inner, |x| &x.inner), step);
        let got = self.read(out);
        let Recurrence { heads, key_heads, key_dim, value_dim, .. } = inputs;
        let bonus = inputs.bonus.map(|w| numbers(&w.tensor));
        let rates = match inputs.decay {
            Decay::Rates { rate, .. } => numbers(&rate.tensor),
            Decay::Keys(_) | Decay::Heads(_) => Vec::new(),
        };
        let decay = match inputs.decay {
            Decay::Keys(_) => Decay::Keys(&read[3]),
            Decay::Heads(_) => Decay::Heads(&read[3]),
            Decay::Rates { .. } => Decay::Rates { time: &read[3], rate: &rates },
        };
        let erase = inputs.erase.map(|_| (&read[4], &read[5]));
        let (q, k, v, bonus) = (&read[0], &read[1], &read[2], bonus.as_ref());
        let inputs = Recurrence { heads, key_heads, key_dim, value_dim, q, k, v, decay, erase, bonus };
        let state = &mut kv.layers[place.0].states[place.1];
        let expected = states::recurred(state, &inputs, step);
        self.compare(("recur", STEPS), self.here(), out.width, &got, expected);
    }

    fn route(&mut self, routes: &mut Self::Routes, logits: &Self::Buf, bias: Option<&Self::Weight>, router: Router) {
        let before = self.read(logits);
        self.inner.route(&mut routes.inner, &logits.inner, bias.map(|w| &w.inner), router);
        let chosen = self.take(How::Choices, |inner| inner.choices(&routes.inner));
        routes.chosen = chosen.chunks_exact(2).map(|pair| (pair[0] as u32, pair[1])).collect();
        self.check_choice(routes, &before, bias.map(|w| &w.tensor), router);
    }

    fn choices(&mut self, routes: &Self::Routes) -> B::Snapshot {
        self.inner.choices(&routes.inner)
    }

    fn chosen(&mut self, choices: &B::Snapshot, out: &mut Vec<(u32, f32)>) {
        self.inner.chosen(choices, out);
    }

    fn matmul_experts(&mut self, out: &mut Self::Buf, x: &Self::Buf, w: &Self::Weight, routes: &Self::Routes) {
        let before = self.read(x);
        self.inner.matmul_experts(&mut out.inner, &x.inner, &w.inner, &routes.inner);
        let got = self.read(out);
        self.check_products(routes, &before, &w.tensor, (&got, out.width));
    }

    fn add_bias_experts(&mut self, x: &mut Self::Buf, bias: &Self::Weight, routes: &Self::Routes) {
        let before = self.read(x);
        self.inner.add_bias_experts(&mut x.inner, &bias.inner, &routes.inner);
        let got = self.read(x);
        self.check_biases(routes, &before, &bias.tensor, &got);
    }

    fn scale_experts(&mut self, x: &mut Self::Buf, routes: &Self::Routes) {
        let before = self.read(x);
        self.inner.scale_experts(&mut x.inner, &routes.inner);
        let got = self.read(x);
        self.check_scaling(routes, &before, (&got, x.width));
    }

    fn sum_experts(&mut self, out: &mut Self::Buf, x: &Self::Buf, routes: &Self::Routes) {
        let before = self.read(x);
        self.inner.sum_experts(&mut out.inner, &x.inner, &routes.inner);
        let got = self.read(out);
        self.check_sums(routes, &before, (&got, out.width));
    }

    fn upload(&mut self, x: &mut Self::Buf, values: &[f32], step: &Step) {
        self.inner.upload(&mut x.inner, values, step);
    }

    fn snapshot(&mut self, x: &Self::Buf) -> B::Snapshot {
        self.inner.snapshot(&x.inner)
    }

    fn elements(&self, snapshot: &B::Snapshot) -> usize {
        self.inner.elements(snapshot)
    }

    fn poll_read(&mut self, snapshot: &mut B::Snapshot, cx: &mut Context<'_>) -> Poll<()> {
        self.inner.poll_read(snapshot, cx)
    }

    fn download(&mut self, snapshot: &B::Snapshot, out: &mut Vec<f32>) {
        self.inner.download(snapshot, out);
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.inner.finish()
    }
}
