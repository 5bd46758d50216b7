//! The readable definition of each primitive: values are stored as f32, every sum and function is computed in f64.
//!
//! Scalar, one row after another, straight from the formulas; a row's result does not depend on the rows beside it, nor on
//! the threads that share long loops.
//! It says what is meant. That it is right is shown by other programs, and that a backend is right by comparing it
//! with this one.

mod stored;
#[cfg(test)]
mod tests;
mod threads;

use crate::{
    Attention, Columns, Decay, Error, KvFormat, KvPlan, LayerCache, Norm, NormKind, Ops, Pages, Prims, Recurrence,
    Rope, Router, Step, Stored, Tensor, Unary, alibi_slope, relative_bucket, sequence_len,
};

/// The scalar backend.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reference;

/// A weight, decoded to f32: `[rows][cols]`.
#[derive(Clone, Debug)]
pub struct Matrix {
    cols: usize,
    values: Vec<f32>,
}

impl Matrix {
    fn row(&self, row: usize) -> &[f32] {
        &self.values[row * self.cols..][..self.cols]
    }
}

/// Activations, `[rows, width]`, with room for more rows.
#[derive(Clone, Debug)]
pub struct Rows {
    rows: usize,
    width: usize,
    values: Vec<f32>,
}

impl Rows {
    fn row(&self, row: usize) -> &[f32] {
        &self.values[row * self.width..][..self.width]
    }

    fn row_mut(&mut self, row: usize) -> &mut [f32] {
        &mut self.values[row * self.width..][..self.width]
    }

    fn live(&self) -> &[f32] {
        &self.values[..self.rows * self.width]
    }

    fn live_mut(&mut self) -> &mut [f32] {
        &mut self.values[..self.rows * self.width]
    }
}

/// The experts of each row, `used` of them, best first, with their weights.
#[derive(Clone, Debug)]
pub struct Chosen {
    used: usize,
    experts: Vec<(usize, f64)>,
}

impl Chosen {
    /// Choices of all rows together.
    pub fn len(&self) -> usize {
        self.experts.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.experts.is_empty()
    }
}

/// What each layer keeps, keys and values rounded to the plan's formats.
#[derive(Clone, Debug)]
pub struct Cache {
    plan: KvPlan,
    /// Counted alone: every sequence has memory of its own.
    pages: Pages,
    layers: Vec<Kept>,
}

/// Keys and values, `[sequence][position][kv_head][dim]`, and states, `[sequence][numbers]`.
#[derive(Clone, Debug)]
struct Kept {
    plan: LayerCache,
    keys: Vec<f32>,
    values: Vec<f32>,
    states: [Vec<f32>; 3],
}

impl Cache {
    /// Index of a position's head, counted in heads.
    fn head(&self, layer: usize, sequence: usize, position: usize, head: usize) -> usize {
        (sequence * self.plan.context + position) * self.layers[layer].plan.kv_heads + head
    }

    fn key(&self, layer: usize, head: usize) -> &[f32] {
        let Kept { plan, keys, .. } = &self.layers[layer];
        &keys[head * plan.key_dim..][..plan.key_dim]
    }

    fn value(&self, layer: usize, head: usize) -> &[f32] {
        let Kept { plan, values, .. } = &self.layers[layer];
        &values[head * plan.value_dim..][..plan.value_dim]
    }

    /// A state of a sequence; zeros where `position` is its first.
    fn state(&mut self, (layer, slot): (usize, usize), sequence: u32, position: u32) -> &mut [f32] {
        let kept = &mut self.layers[layer];
        let len = kept.plan.states[slot];
        let state = &mut kept.states[slot][sequence as usize * len..][..len];
        if position == 0 {
            state.fill(0.0);
        }
        state
    }
}

impl Reference {
    /// Choices made elsewhere: experts and weights, `used` for each row.
    pub fn routed(&self, used: usize, experts: Vec<(usize, f64)>) -> Chosen {
        Chosen { used, experts }
    }
}

fn store(out: &mut [f32], x: &[f32], format: KvFormat) {
    let format = format.format();
    let mut block = [0; 64];
    let block = &mut block[..format.block_bytes()];
    for (x, out) in x.chunks_exact(format.block_len()).zip(out.chunks_exact_mut(format.block_len())) {
        format.encode_direct(x, block).expect("every format of a cache has an encoder");
        format.decode(block, out);
    }
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
}

/// `out[o] = w[first + o] @ x`: the sums of [`dot`], eight side by side, since each addition waits for the one before it.
fn multiply(out: &mut [f32], w: &Matrix, first: usize, x: &[f32]) {
    const EIGHT: usize = 8;
    let work = w.cols * out.len();
    threads::each_run(out, EIGHT, work, |run, out| {
        let row = |o: usize| w.row(first + run * EIGHT + o);
        if out.len() < EIGHT {
            return out.iter_mut().enumerate().for_each(|(o, out)| *out = dot(row(o), x) as f32);
        }
        let rows: [&[f32]; EIGHT] = std::array::from_fn(row);
        let mut sums = [-0.0; EIGHT];
        for (i, &x) in x.iter().enumerate() {
            sums.iter_mut().zip(rows).for_each(|(sum, row)| *sum += f64::from(row[i]) * f64::from(x));
        }
        out.iter_mut().zip(sums).for_each(|(out, sum)| *out = sum as f32);
    });
}

/// `1 / sqrt(mean(x^2) + eps)`.
fn inverse_rms(x: &[f32], eps: f32) -> f64 {
    1.0 / (dot(x, x) / x.len() as f64 + f64::from(eps)).sqrt()
}

/// A run without its mean where the norm takes it away, divided.
fn normalize(run: &mut [f32], norm: Norm) {
    let len = run.len() as f64;
    let mean = match norm.kind {
        NormKind::Layer => run.iter().map(|&x| f64::from(x)).sum::<f64>() / len,
        NormKind::Rms | NormKind::L2 => 0.0,
    };
    let sum: f64 = run.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum();
    let square = if norm.kind == NormKind::L2 { sum } else { sum / len };
    let factor = 1.0 / (square + f64::from(norm.eps)).sqrt();
    run.iter_mut().for_each(|x| *x = ((f64::from(*x) - mean) * factor) as f32);
}

fn softmax(scores: &mut [f64]) {
    let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    scores.iter_mut().for_each(|score| *score = (*score - max).exp());
    let sum: f64 = scores.iter().sum();
    scores.iter_mut().for_each(|score| *score /= sum);
}

impl Prims for Reference {
    type Weight = Matrix;
    type Buf = Rows;
    type Kv = Cache;
    type Rope = Rope;
    type Snapshot = Vec<f32>;
    type Routes = Chosen;

    fn weight(&mut self, tensor: Tensor) -> Result<Matrix, Error> {
        tensor.check()?;
        let mut values = vec![0.0; tensor.rows * tensor.cols];
        let work = values.len();
        threads::each_run(&mut values, tensor.cols, work, |row, out| tensor.format.decode(tensor.row(row), out));
        Ok(Matrix { cols: tensor.cols, values })
    }

    fn buffer(&mut self, rows: usize, width: usize) -> Rows {
        Rows { rows: 0, width, values: vec![0.0; rows * width] }
    }

    fn kv(&mut self, plan: &KvPlan) -> Cache {
        let layers = plan.layers.iter().map(|layer| {
            let heads = plan.sequences * plan.context * layer.kv_heads;
            Kept {
                plan: *layer,
                keys: vec![0.0; heads * layer.key_dim],
                values: vec![0.0; heads * layer.value_dim],
                states: layer.states.map(|len| vec![0.0; plan.sequences * len]),
            }
        });
        let pages = Pages::new(plan.sequences, plan.context, plan.pages());
        Cache { plan: plan.clone(), pages, layers: layers.collect() }
    }

    fn routes(&mut self, _: usize, used: usize) -> Chosen {
        Chosen { used, experts: Vec::new() }
    }

    fn stored<'a>(&mut self, kv: &'a mut Cache) -> Option<&'a mut dyn Stored> {
        Some(kv)
    }

    fn rope_table(&mut self, rope: Rope) -> Rope {
        rope
    }

    fn embed(&mut self, out: &mut Rows, table: &Matrix, step: &Step) {
        out.rows = step.tokens.len();
        for (t, &token) in step.tokens.iter().enumerate() {
            out.row_mut(t).copy_from_slice(table.row(token as usize));
        }
    }

    fn rms_norm(&mut self, out: &mut Rows, x: &Rows, w: &Matrix, eps: f32) {
        out.rows = x.rows;
        for t in 0..x.rows {
            let factor = inverse_rms(x.row(t), eps);
            for ((out, &x), &w) in out.row_mut(t).iter_mut().zip(x.row(t)).zip(w.row(0)) {
                *out = (f64::from(x) * factor * f64::from(w)) as f32;
            }
        }
    }

    fn norm(&mut self, x: &mut Rows, norm: Norm, weight: Option<&Matrix>, bias: Option<&Matrix>) {
        for t in 0..x.rows {
            for (first, run) in x.row_mut(t).chunks_exact_mut(norm.run).enumerate().map(|(i, run)| (i * norm.run, run))
            {
                normalize(run, norm);
                let part = |w: &Matrix, i: usize| f64::from(w.values[(first + i) % w.values.len()]);
                for (i, x) in run.iter_mut().enumerate() {
                    let scaled = f64::from(*x) * weight.map_or(1.0, |w| part(w, i));
                    *x = (scaled + bias.map_or(0.0, |b| part(b, i))) as f32;
                }
            }
        }
    }

    fn matmul(&mut self, out: &mut Rows, x: &Rows, w: &Matrix) {
        out.rows = x.rows;
        for t in 0..x.rows {
            multiply(out.row_mut(t), w, 0, x.row(t));
        }
    }

    fn matmul_rows(&mut self, out: &mut Rows, x: &Rows, w: &Matrix, step: &Step) {
        out.rows = step.outputs.len();
        for (i, &t) in step.outputs.iter().enumerate() {
            multiply(out.row_mut(i), w, 0, x.row(t as usize));
        }
    }

    fn add_bias(&mut self, x: &mut Rows, bias: &Matrix) {
        for t in 0..x.rows {
            x.row_mut(t).iter_mut().zip(bias.row(0)).for_each(|(x, b)| *x += b);
        }
    }

    fn rope(&mut self, x: &mut Rows, rope: &Rope, head_dim: usize, step: &Step) {
        for (t, &position) in step.positions.iter().enumerate() {
            for head in x.row_mut(t).chunks_exact_mut(head_dim) {
                for pair in 0..rope.frequencies.len() {
                    let (cos, sin) = rope.turn(pair, position);
                    let (i, j) = rope.elements(pair);
                    let (a, b) = (f64::from(head[i]), f64::from(head[j]));
                    head[i] = (a * cos - b * sin) as f32;
                    head[j] = (a * sin + b * cos) as f32;
                }
            }
        }
    }

    fn kv_write(&mut self, kv: &mut Cache, layer: usize, k: &Rows, v: &Rows, step: &Step) {
        let formats = (kv.plan.keys, kv.plan.values);
        for t in 0..k.rows {
            let (sequence, position) = (step.sequences[t] as usize, step.positions[t] as usize);
            if kv.plan.is_pooled(layer) {
                kv.pages
                    .reserve(sequence, position..position + 1)
                    .expect("room is reserved before positions are written");
            }
            let first = kv.head(layer, sequence, position, 0);
            let Kept { plan, keys, values, .. } = &mut kv.layers[layer];
            store(&mut keys[first * plan.key_dim..][..k.width], k.row(t), formats.0);
            store(&mut values[first * plan.value_dim..][..v.width], v.row(t), formats.1);
        }
    }

    fn attend(
        &mut self,
        out: &mut Rows,
        q: &Rows,
        kv: &Cache,
        layer: usize,
        attention: Attention<'_, Matrix>,
        step: &Step,
    ) {
        out.rows = q.rows;
        let Attention { heads, mask, soft_cap, alibi, sinks, relative } = attention;
        for t in 0..q.rows {
            let (sequence, at) = (step.sequences[t], step.positions[t] as usize);
            let seen = mask.seen(at, sequence_len(step, sequence));
            let queries = q.row(t).chunks_exact(heads.key_dim);
            let outs = out.row_mut(t).chunks_exact_mut(heads.value_dim);
            for (h, (query, out)) in queries.zip(outs).enumerate() {
                let head = |p| kv.head(layer, sequence as usize, p, h / (heads.heads / heads.kv_heads));
                let score = |p: usize| {
                    let mut score = dot(query, kv.key(layer, head(p))) * f64::from(heads.scale);
                    if let Some(cap) = soft_cap {
                        score = Unary::SoftCap(cap).at(score);
                    }
                    if let Some(max) = alibi {
                        score -= alibi_slope(h, heads.heads, max) * at.abs_diff(p) as f64;
                    }
                    if let Some(relative) = relative {
                        let bucket =
                            relative_bucket(p as i64 - at as i64, mask.is_both(), relative.buckets, relative.most);
                        score += f64::from(relative.table.row(bucket)[h]);
                    }
                    score
                };
                let mut weights: Vec<f64> = seen.clone().map(score).collect();
                // A sink takes its share and gives nothing.
                weights.extend(sinks.map(|sinks| f64::from(sinks.values[h])));
                softmax(&mut weights);
                for (e, out) in out.iter_mut().enumerate() {
                    let part = |(p, w): (usize, &f64)| w * f64::from(kv.value(layer, head(p))[e]);
                    let sum: f64 = seen.clone().zip(&weights).map(part).sum();
                    *out = sum as f32;
                }
            }
        }
    }

    fn unary(&mut self, x: &mut Rows, f: Unary) {
        x.live_mut().iter_mut().for_each(|x| *x = f.at(f64::from(*x)) as f32);
    }

    fn mul(&mut self, x: &mut Rows, y: &Rows) {
        x.live_mut().iter_mut().zip(y.live()).for_each(|(x, y)| *x *= y);
    }

    fn add(&mut self, x: &mut Rows, y: &Rows) {
        x.live_mut().iter_mut().zip(y.live()).for_each(|(x, y)| *x += y);
    }

    fn copy(&mut self, out: &mut Rows, x: &Rows, columns: Columns) {
        out.rows = x.rows;
        let Columns { groups, len, from, to } = columns;
        for t in 0..x.rows {
            for g in 0..groups {
                let run = &x.row(t)[from.0 + g * from.1..][..len];
                out.row_mut(t)[to.0 + g * to.1..][..len].copy_from_slice(run);
            }
        }
    }

    fn add_positions(&mut self, x: &mut Rows, table: &Matrix, step: &Step) {
        for (t, &position) in step.positions.iter().enumerate() {
            x.row_mut(t).iter_mut().zip(table.row(position as usize)).for_each(|(x, y)| *x += y);
        }
    }

    fn mul_columns(&mut self, x: &mut Rows, w: &Matrix) {
        for t in 0..x.rows {
            x.row_mut(t).iter_mut().zip(&w.values).for_each(|(x, w)| *x *= w);
        }
    }

    fn mul_groups(&mut self, x: &mut Rows, y: &Rows) {
        let len = x.width / y.width;
        for (group, y) in x.live_mut().chunks_exact_mut(len).zip(y.live()) {
            group.iter_mut().for_each(|x| *x *= y);
        }
    }

    fn dot_groups(&mut self, out: &mut Rows, x: &Rows, y: &Rows) {
        out.rows = x.rows;
        let len = x.width / out.width;
        let groups = x.live().chunks_exact(len).zip(y.live().chunks_exact(len));
        out.live_mut().iter_mut().zip(groups).for_each(|(out, (x, y))| *out = dot(x, y) as f32);
    }

    fn matmul_heads(&mut self, out: &mut Rows, x: &Rows, w: &Matrix, heads: usize) {
        out.rows = x.rows;
        let outputs = out.width / heads;
        for t in 0..x.rows {
            for (o, out) in out.row_mut(t).iter_mut().enumerate() {
                let head = &x.row(t)[o / outputs * w.cols..][..w.cols];
                *out = dot(w.row(o), head) as f32;
            }
        }
    }

    fn conv(&mut self, out: &mut Rows, kv: &mut Cache, place: (usize, usize), x: &Rows, w: &Matrix, step: &Step) {
        out.rows = x.rows;
        let (taps, width) = (w.cols, x.width);
        for t in 0..x.rows {
            // `[taps - 1, width]`, the oldest row first.
            let before = kv.state(place, step.sequences[t], step.positions[t]);
            for (c, out) in out.row_mut(t).iter_mut().enumerate() {
                let past: f64 = (0..taps - 1).map(|j| f64::from(w.row(c)[j]) * f64::from(before[j * width + c])).sum();
                *out = (past + f64::from(w.row(c)[taps - 1]) * f64::from(x.row(t)[c])) as f32;
            }
            if taps > 1 {
                before.copy_within(width.., 0);
                before[(taps - 2) * width..].copy_from_slice(x.row(t));
            }
        }
    }

    fn recur(
        &mut self,
        out: &mut Rows,
        kv: &mut Cache,
        place: (usize, usize),
        inputs: Recurrence<'_, Matrix, Rows>,
        step: &Step,
    ) {
        out.rows = inputs.v.rows;
        let Recurrence { heads, key_heads, key_dim: dim, value_dim, q, k, v, decay, erase, bonus } = inputs;
        for t in 0..v.rows {
            let states = kv.state(place, step.sequences[t], step.positions[t]);
            for (h, state) in states.chunks_exact_mut(dim * value_dim).enumerate() {
                let shared = h / (heads / key_heads) * dim;
                let at = |x: &Rows, i: usize| f64::from(x.row(t)[h * dim + i]);
                let fading = |i: usize| match decay {
                    Decay::Keys(factors) => at(factors, i),
                    Decay::Heads(factors) => f64::from(factors.row(t)[h]),
                    Decay::Rates { time, rate } => {
                        (f64::from(time.row(t)[h]) * f64::from(rate.values[h * dim + i])).exp()
                    }
                };
                for j in 0..value_dim {
                    let value = f64::from(v.row(t)[h * value_dim + j]);
                    let read = |(a, _): (&Rows, &Rows)| {
                        (0..dim).map(|i| at(a, i) * f64::from(state[i * value_dim + j])).sum::<f64>()
                    };
                    let erased = erase.map_or(0.0, read);
                    let mut sum = 0.0;
                    for i in 0..dim {
                        let old = f64::from(state[i * value_dim + j]);
                        let added = f64::from(k.row(t)[shared + i]) * value;
                        let back = erase.map_or(0.0, |(_, b)| at(b, i) * erased);
                        let new = old * fading(i) + back + added;
                        state[i * value_dim + j] = new as f32;
                        let seen = bonus.map_or(new, |u| old + f64::from(u.values[h * dim + i]) * added);
                        sum += f64::from(q.row(t)[shared + i]) * seen;
                    }
                    out.row_mut(t)[h * value_dim + j] = sum as f32;
                }
            }
        }
    }

    fn route(&mut self, routes: &mut Chosen, logits: &Rows, bias: Option<&Matrix>, router: Router) {
        routes.experts.clear();
        for t in 0..logits.rows {
            routes.experts.extend(router.choose(logits.row(t), bias.map(|bias| bias.values.as_slice())));
        }
    }

    fn choices(&mut self, routes: &Chosen) -> Vec<f32> {
        routes.experts.iter().flat_map(|&(expert, weight)| [expert as f32, weight as f32]).collect()
    }

    fn chosen(&mut self, choices: &Vec<f32>, out: &mut Vec<(u32, f32)>) {
        out.clear();
        out.extend(choices.as_chunks().0.iter().map(|&[expert, weight]| (expert as u32, weight)));
    }

    fn matmul_experts(&mut self, out: &mut Rows, x: &Rows, w: &Matrix, routes: &Chosen) {
        let choices = routes.experts.len();
        let shared = if x.rows == choices { 1 } else { routes.used };
        let outputs = out.width;
        out.rows = choices;
        for (choice, &(expert, _)) in routes.experts.iter().enumerate() {
            multiply(out.row_mut(choice), w, expert * outputs, x.row(choice / shared));
        }
    }

    fn add_bias_experts(&mut self, x: &mut Rows, bias: &Matrix, routes: &Chosen) {
        for (choice, &(expert, _)) in routes.experts.iter().enumerate() {
            x.row_mut(choice).iter_mut().zip(bias.row(expert)).for_each(|(x, b)| *x += b);
        }
    }

    fn scale_experts(&mut self, x: &mut Rows, routes: &Chosen) {
        for (choice, &(_, weight)) in routes.experts.iter().enumerate() {
            x.row_mut(choice).iter_mut().for_each(|x| *x = (f64::from(*x) * weight) as f32);
        }
    }

    fn sum_experts(&mut self, out: &mut Rows, x: &Rows, routes: &Chosen) {
        out.rows = routes.experts.len() / routes.used;
        for t in 0..out.rows {
            for (c, out) in out.row_mut(t).iter_mut().enumerate() {
                let sum: f64 = (0..routes.used).map(|i| f64::from(x.row(t * routes.used + i)[c])).sum();
                *out = sum as f32;
            }
        }
    }

    fn upload(&mut self, x: &mut Rows, values: &[f32], step: &Step) {
        x.rows = step.tokens.len();
        x.live_mut().copy_from_slice(values);
    }

    fn snapshot(&mut self, x: &Rows) -> Vec<f32> {
        x.live().to_vec()
    }

    fn elements(&self, snapshot: &Vec<f32>) -> usize {
        snapshot.len()
    }

    fn download(&mut self, snapshot: &Vec<f32>, out: &mut Vec<f32>) {
        out.clone_from(snapshot);
    }
}

impl Ops for Reference {}
