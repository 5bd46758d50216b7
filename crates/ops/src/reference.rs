//! The readable definition of each primitive: values are stored as f32, every sum and function is computed in f64.
//!
//! Scalar, one row after another, straight from the formulas; a row's result does not depend on the rows beside it.
//! It says what is meant. That it is right is shown by other programs, and that a backend is right by comparing it
//! with this one.

mod stored;

use crate::{
    Attention, Columns, Decay, Error, KvFormat, KvPlan, LayerCache, Norm, NormKind, Ops, Prims, Recurrence, Rope,
    Router, Step, Stored, Tensor, Unary, alibi_slope, relative_bucket, sequence_len,
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
        format.encode(x, block).expect("every format of a cache has an encoder");
        format.decode(block, out);
    }
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
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
        for (row, out) in values.chunks_exact_mut(tensor.cols.max(1)).enumerate() {
            tensor.format.decode(tensor.row(row), out);
        }
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
        Cache { plan: plan.clone(), layers: layers.collect() }
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
            for (o, out) in out.row_mut(t).iter_mut().enumerate() {
                *out = dot(w.row(o), x.row(t)) as f32;
            }
        }
    }

    fn matmul_rows(&mut self, out: &mut Rows, x: &Rows, w: &Matrix, step: &Step) {
        out.rows = step.outputs.len();
        for (i, &t) in step.outputs.iter().enumerate() {
            for (o, out) in out.row_mut(i).iter_mut().enumerate() {
                *out = dot(w.row(o), x.row(t as usize)) as f32;
            }
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
            let first = kv.head(layer, step.sequences[t] as usize, step.positions[t] as usize, 0);
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

    fn chosen(&mut self, routes: &Chosen, out: &mut Vec<(u32, f32)>) {
        out.clear();
        out.extend(routes.experts.iter().map(|&(expert, weight)| (expert as u32, weight as f32)));
    }

    fn matmul_experts(&mut self, out: &mut Rows, x: &Rows, w: &Matrix, routes: &Chosen) {
        let choices = routes.experts.len();
        let shared = if x.rows == choices { 1 } else { routes.used };
        let outputs = out.width;
        out.rows = choices;
        for (choice, &(expert, _)) in routes.experts.iter().enumerate() {
            for (o, out) in out.row_mut(choice).iter_mut().enumerate() {
                *out = dot(w.row(expert * outputs + o), x.row(choice / shared)) as f32;
            }
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

    fn upload(&mut self, x: &mut Rows, rows: usize, values: &[f32]) {
        x.rows = rows;
        x.live_mut().copy_from_slice(values);
    }

    fn snapshot(&mut self, x: &Rows) -> Vec<f32> {
        x.live().to_vec()
    }

    fn download(&mut self, snapshot: &Vec<f32>, out: &mut Vec<f32>) {
        out.clone_from(snapshot);
    }
}

impl Ops for Reference {}

#[cfg(test)]
mod tests {
    use candor_quant::Format;

    use super::*;
    use crate::{Heads, Pairing, Plain};

    fn matrix(cols: usize, values: &[f32]) -> Matrix {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        let rows = values.len() / cols;
        Reference
            .weight(Tensor { name: "w".into(), format: Format::F32, rows, cols, bytes: bytes.into() })
            .expect("a whole number of rows")
    }

    fn rows(width: usize, values: &[f32]) -> Rows {
        Rows { rows: values.len() / width, width, values: values.to_vec() }
    }

    fn step<'a>(tokens: &'a [u32], positions: &'a [u32], sequences: &'a [u32], outputs: &'a [u32]) -> Step<'a> {
        Step { tokens, positions, sequences, outputs }
    }

    #[test]
    fn embed_copies_the_rows_of_the_tokens() {
        let mut out = Reference.buffer(4, 2);
        Reference.embed(&mut out, &matrix(2, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), &step(&[2, 0], &[0, 1], &[0, 0], &[]));
        assert_eq!(out.live(), [5.0, 6.0, 1.0, 2.0]);
    }

    #[test]
    fn rms_norm_divides_by_the_root_of_the_mean_square() {
        let mut out = Reference.buffer(1, 2);
        // Mean square (1 + 49) / 2 = 25.
        Reference.rms_norm(&mut out, &rows(2, &[1.0, 7.0]), &matrix(2, &[10.0, 1.0]), 0.0);
        assert_eq!(out.live(), [2.0, 1.4]);
        Reference.rms_norm(&mut out, &rows(2, &[1.0, 7.0]), &matrix(2, &[10.0, 1.0]), 75.0);
        assert_eq!(out.live(), [1.0, 0.7]);
    }

    #[test]
    fn norm_takes_each_run_by_itself() {
        let rms = Norm { kind: NormKind::Rms, run: 2, eps: 0.0 };
        let mut x = rows(4, &[1.0, 7.0, 0.0, 2.0]);
        Reference.norm(&mut x, rms, Some(&matrix(2, &[5.0, 10.0])), None);
        assert_eq!(x.live(), [1.0, 14.0, 0.0, 10.0 * 2f64.sqrt() as f32]);
        let mut x = rows(4, &[1.0, 7.0, 1.0, 7.0]);
        Reference.norm(&mut x, rms, Some(&matrix(4, &[5.0, 10.0, 1.0, 2.0])), Some(&matrix(2, &[1.0, 0.0])));
        assert_eq!(x.live(), [2.0, 14.0, 1.2, 2.8], "a weight of the whole row, a bias of a run");
        let mut x = rows(2, &[1.0, 7.0]);
        Reference.norm(&mut x, Norm { kind: NormKind::Layer, ..rms }, None, Some(&matrix(2, &[10.0, 10.0])));
        assert_eq!(x.live(), [9.0, 11.0]);
        let mut x = rows(2, &[3.0, 4.0]);
        Reference.norm(&mut x, Norm { kind: NormKind::L2, eps: 75.0, ..rms }, None, None);
        assert_eq!(x.live(), [0.3, 0.4]);
    }

    #[test]
    fn matmul_takes_a_row_of_the_matrix_per_output() {
        let (mut out, w) = (Reference.buffer(3, 3), matrix(2, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
        let x = rows(2, &[1.0, 10.0, -1.0, 0.5]);
        Reference.matmul(&mut out, &x, &w);
        assert_eq!(out.live(), [21.0, 43.0, 65.0, 0.0, -1.0, -2.0]);
        Reference.matmul_rows(&mut out, &x, &w, &step(&[0, 0], &[0, 1], &[0, 0], &[1]));
        assert_eq!(out.live(), [0.0, -1.0, -2.0]);
    }

    #[test]
    fn fusions_are_their_definitions() {
        let w = matrix(2, &[1.0, 2.0, 3.0, 4.0]);
        let (mut x, mut product) = (rows(2, &[100.0, 200.0]), Reference.buffer(1, 2));
        Plain(Reference).matmul_add(&mut x, &rows(2, &[1.0, 1.0]), &w, &mut product);
        assert_eq!(x.live(), [103.0, 207.0]);
        let (mut a, mut b, mut c) = (Reference.buffer(1, 2), Reference.buffer(1, 2), Reference.buffer(1, 2));
        Reference.matmul3((&mut a, &w), (&mut b, &w), (&mut c, &w), &rows(2, &[1.0, 0.0]));
        assert_eq!([a.live(), b.live(), c.live()], [[1.0, 3.0]; 3]);
    }

    #[test]
    fn elementwise() {
        let mut x = rows(2, &[1.0, 2.0, 3.0, 4.0]);
        Reference.add_bias(&mut x, &matrix(2, &[10.0, 20.0]));
        assert_eq!(x.live(), [11.0, 22.0, 13.0, 24.0]);
        Reference.add(&mut x, &rows(2, &[1.0, 0.0, -1.0, 0.0]));
        assert_eq!(x.live(), [12.0, 22.0, 12.0, 24.0]);
        Reference.mul(&mut x, &rows(2, &[0.5, 1.0, -1.0, 0.0]));
        assert_eq!(x.live(), [6.0, 22.0, -12.0, 0.0]);
        let mut x = rows(1, &[0.0, 3f32.ln(), -3f32.ln()]);
        Reference.unary(&mut x, Unary::Silu);
        // ln 3 * 3/4 and -ln 3 * 1/4
        assert!((x.values[1] - 0.823_959_2).abs() < 1e-7 && (x.values[2] + 0.274_653_07).abs() < 1e-7, "{x:?}");
        assert_eq!(x.values[0], 0.0);
    }

    #[test]
    fn rope_turns_pairs_and_leaves_the_rest() {
        let quarter = std::f64::consts::FRAC_PI_2;
        let places = step(&[0, 0], &[0, 1], &[0, 0], &[]);
        for (pairing, expected) in [
            (Pairing::Norm, [-2.0, 1.0, -3.0, -4.0, 5.0]), // 90 and 180 degrees
            (Pairing::Neox, [-3.0, -2.0, 1.0, -4.0, 5.0]),
        ] {
            let rope = Rope { pairing, frequencies: vec![quarter, 2.0 * quarter], magnitude: 1.0 };
            let mut x = rows(5, &[1.0, 2.0, 3.0, 4.0, 5.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
            Reference.rope(&mut x, &rope, 5, &places);
            assert_eq!(x.row(0), [1.0, 2.0, 3.0, 4.0, 5.0], "position 0 stays");
            for (got, want) in x.row(1).iter().zip(expected) {
                assert!((got - want).abs() < 1e-6, "{pairing:?}: {:?}", x.row(1));
            }
        }
    }

    fn plan(format: KvFormat) -> KvPlan {
        let (keys, values) = (format, format);
        KvPlan { layers: vec![LayerCache::attention(2, 1, 2); 2], context: 3, step: 3, sequences: 2, keys, values }
    }

    #[test]
    fn attend_sees_its_own_sequence_up_to_its_position() {
        let heads = Heads { heads: 4, kv_heads: 2, key_dim: 1, value_dim: 2, scale: 0.5 };
        let mut kv = Reference.kv(&plan(KvFormat::F32));
        // Sequence 1 holds two positions, sequence 0 one, all in layer 1; layer 0 stays empty.
        let places = step(&[0; 3], &[0, 1, 0], &[1, 1, 0], &[]);
        let ln3 = 3f32.ln();
        let k = rows(2, &[0.0, 0.0, 2.0 * ln3, 0.0, 0.0, 0.0]);
        let v = rows(4, &[0.0, 4.0, 1.0, 1.0, 8.0, 0.0, 3.0, 5.0, 7.0, 7.0, 9.0, 9.0]);
        Reference.kv_write(&mut kv, 1, &k, &v, &places);
        let mut out = Reference.buffer(3, 8);
        let q = rows(4, &[1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0]);
        Reference.attend(&mut out, &q, &kv, 1, Attention::causal(heads), &places);
        assert_eq!(out.row(0), [0.0, 4.0, 0.0, 4.0, 1.0, 1.0, 1.0, 1.0], "one position: its value");
        // Head 0: weights 1/4 and 3/4; the others 1/2 and 1/2; heads 2 and 3 read the second key and value head.
        for (got, want) in out.row(1).iter().zip([6.0, 1.0, 4.0, 2.0, 2.0, 3.0, 2.0, 3.0]) {
            assert!((got - want).abs() < 1e-6, "{:?}", out.row(1));
        }
        assert_eq!(out.row(2), [7.0, 7.0, 7.0, 7.0, 9.0, 9.0, 9.0, 9.0]);
    }

    #[test]
    fn a_half_precision_cache_rounds() {
        let heads = Heads { heads: 2, kv_heads: 2, key_dim: 1, value_dim: 2, scale: 1.0 };
        let mut kv = Reference.kv(&plan(KvFormat::F16));
        let places = step(&[0], &[0], &[0], &[]);
        Reference.kv_write(&mut kv, 0, &rows(2, &[1.0, 1.0]), &rows(4, &[2049.0, 0.1, 1e-8, 1.0]), &places);
        let mut out = Reference.buffer(1, 4);
        Reference.attend(&mut out, &rows(2, &[1.0, 1.0]), &kv, 0, Attention::causal(heads), &places);
        assert_eq!(out.live(), [2048.0, 0.099_975_586, 0.0, 1.0]);
    }

    #[test]
    fn an_8_bit_cache_rounds_to_its_blocks_scale() {
        let heads = Heads { heads: 1, kv_heads: 1, key_dim: 32, value_dim: 64, scale: 1.0 };
        let (keys, values) = (KvFormat::Q8_0, KvFormat::Q8_0);
        let layers = vec![LayerCache::attention(1, 32, 64)];
        let plan = KvPlan { layers, context: 1, step: 1, sequences: 1, keys, values };
        let mut kv = Reference.kv(&plan);
        let places = step(&[0], &[0], &[0], &[]);
        let mut value = [0.0; 64];
        // The largest is 127 steps of the scale, which is itself a half.
        (value[0], value[1], value[2]) = (127.0, -0.6, 0.4);
        (value[32], value[33], value[34]) = (-254.0, 3.0, 0.9);
        Reference.kv_write(&mut kv, 0, &rows(32, &[1.0; 32]), &rows(64, &value), &places);
        let mut out = Reference.buffer(1, 64);
        Reference.attend(&mut out, &rows(32, &[1.0; 32]), &kv, 0, Attention::causal(heads), &places);
        assert_eq!((&out.live()[..3], &out.live()[32..35]), (&[127.0, -1.0, 0.0][..], &[-254.0, 4.0, 0.0][..]));
    }

    #[test]
    fn a_snapshot_is_a_copy_of_the_rows_in_flight() {
        let mut x = rows(2, &[1.0, 2.0, 3.0, 4.0]);
        x.rows = 1;
        let snapshot = Reference.snapshot(&x);
        x.values[0] = 9.0;
        let mut out = vec![7.0; 5];
        Reference.download(&snapshot, &mut out);
        assert_eq!(out, [1.0, 2.0]);
    }

    #[test]
    fn a_weight_with_the_wrong_number_of_bytes_is_refused() {
        let tensor = Tensor { name: "w".into(), format: Format::F16, rows: 2, cols: 3, bytes: vec![0; 10].into() };
        let message = Reference.weight(tensor).expect_err("two bytes short").to_string();
        assert_eq!(message, "bytes of w: expected [2, 6], got [2, 5]");
    }
}
