//! The readable definition of each primitive: values are stored as f32, every sum and function is computed in f64.
//!
//! Scalar, one row after another, straight from the formulas; a row's result does not depend on the rows beside it.
//! It says what is meant. That it is right is shown by other programs, and that a backend is right by comparing it
//! with this one.

use crate::{Error, Heads, KvFormat, KvPlan, Ops, Prims, Rope, Step, Tensor};

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

/// Keys and values, `[layer][sequence][position][kv_head][dim]`, rounded to the plan's formats.
#[derive(Clone, Debug)]
pub struct Cache {
    plan: KvPlan,
    keys: Vec<f32>,
    values: Vec<f32>,
}

impl Cache {
    /// Index of a position's head, counted in heads.
    fn head(&self, layer: usize, sequence: usize, position: usize, head: usize) -> usize {
        let plan = &self.plan;
        ((layer * plan.sequences + sequence) * plan.context + position) * plan.kv_heads + head
    }

    fn key(&self, head: usize) -> &[f32] {
        &self.keys[head * self.plan.key_dim..][..self.plan.key_dim]
    }

    fn value(&self, head: usize) -> &[f32] {
        &self.values[head * self.plan.value_dim..][..self.plan.value_dim]
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
        let heads = plan.layers * plan.sequences * plan.context * plan.kv_heads;
        Cache { plan: *plan, keys: vec![0.0; heads * plan.key_dim], values: vec![0.0; heads * plan.value_dim] }
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

    fn head_norm(&mut self, x: &mut Rows, w: &Matrix, head_dim: usize, eps: f32) {
        for head in x.live_mut().chunks_exact_mut(head_dim) {
            let factor = inverse_rms(head, eps);
            for (x, &w) in head.iter_mut().zip(w.row(0)) {
                *x = (f64::from(*x) * factor * f64::from(w)) as f32;
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
        let plan = kv.plan;
        for t in 0..k.rows {
            let first = kv.head(layer, step.sequences[t] as usize, step.positions[t] as usize, 0);
            store(&mut kv.keys[first * plan.key_dim..][..k.width], k.row(t), plan.keys);
            store(&mut kv.values[first * plan.value_dim..][..v.width], v.row(t), plan.values);
        }
    }

    fn attend(&mut self, out: &mut Rows, q: &Rows, kv: &Cache, layer: usize, heads: Heads, step: &Step) {
        out.rows = q.rows;
        for t in 0..q.rows {
            let (sequence, last) = (step.sequences[t] as usize, step.positions[t] as usize);
            let queries = q.row(t).chunks_exact(heads.key_dim);
            let outs = out.row_mut(t).chunks_exact_mut(heads.value_dim);
            for (h, (query, out)) in queries.zip(outs).enumerate() {
                let head = |position| kv.head(layer, sequence, position, h / (heads.heads / heads.kv_heads));
                let mut weights: Vec<f64> =
                    (0..=last).map(|p| dot(query, kv.key(head(p))) * f64::from(heads.scale)).collect();
                softmax(&mut weights);
                for (e, out) in out.iter_mut().enumerate() {
                    let sum: f64 = (0..=last).map(|p| weights[p] * f64::from(kv.value(head(p))[e])).sum();
                    *out = sum as f32;
                }
            }
        }
    }

    fn silu(&mut self, x: &mut Rows) {
        for x in x.live_mut() {
            let exact = f64::from(*x);
            *x = (exact / (1.0 + (-exact).exp())) as f32;
        }
    }

    fn mul(&mut self, x: &mut Rows, y: &Rows) {
        x.live_mut().iter_mut().zip(y.live()).for_each(|(x, y)| *x *= y);
    }

    fn add(&mut self, x: &mut Rows, y: &Rows) {
        x.live_mut().iter_mut().zip(y.live()).for_each(|(x, y)| *x += y);
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
    use crate::{Pairing, Plain};

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
    fn head_norm_takes_each_head_by_itself() {
        let mut x = rows(4, &[1.0, 7.0, 0.0, 2.0]);
        Reference.head_norm(&mut x, &matrix(2, &[5.0, 10.0]), 2, 0.0);
        assert_eq!(x.live(), [1.0, 14.0, 0.0, 10.0 * 2f64.sqrt() as f32]);
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
        Reference.silu(&mut x);
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
        KvPlan { layers: 2, kv_heads: 2, key_dim: 1, value_dim: 2, context: 3, sequences: 2, keys, values }
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
        Reference.attend(&mut out, &q, &kv, 1, heads, &places);
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
        Reference.attend(&mut out, &rows(2, &[1.0, 1.0]), &kv, 0, heads, &places);
        assert_eq!(out.live(), [2048.0, 0.099_975_586, 0.0, 1.0]);
    }

    #[test]
    fn an_8_bit_cache_rounds_to_its_blocks_scale() {
        let heads = Heads { heads: 1, kv_heads: 1, key_dim: 32, value_dim: 64, scale: 1.0 };
        let (keys, values) = (KvFormat::Q8_0, KvFormat::Q8_0);
        let plan =
            KvPlan { layers: 1, kv_heads: 1, key_dim: 32, value_dim: 64, context: 1, sequences: 1, keys, values };
        let mut kv = Reference.kv(&plan);
        let places = step(&[0], &[0], &[0], &[]);
        let mut value = [0.0; 64];
        // The largest is 127 steps of the scale, which is itself a half.
        (value[0], value[1], value[2]) = (127.0, -0.6, 0.4);
        (value[32], value[33], value[34]) = (-254.0, 3.0, 0.9);
        Reference.kv_write(&mut kv, 0, &rows(32, &[1.0; 32]), &rows(64, &value), &places);
        let mut out = Reference.buffer(1, 64);
        Reference.attend(&mut out, &rows(32, &[1.0; 32]), &kv, 0, heads, &places);
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
