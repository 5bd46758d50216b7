//! A backend that computes nothing: it checks that the shapes of a pass belong together and counts the work.
//!
//! Run the model on it once at load; then no other backend needs to look at a shape.

use std::collections::BTreeSet;

use candor_quant::Format;

use crate::{
    Attention, Columns, Decay, Error, KvPlan, Mask, Norm, NormKind, Ops, Prims, Recurrence, Rope, Router, Step, Tensor,
    Unary,
};

impl Tensor {
    /// Whether `bytes` is what `rows` rows of `cols` elements take.
    ///
    /// # Errors
    /// [`Error::Shape`], in bytes, when it is not.
    pub fn check(&self) -> Result<(), Error> {
        let row = self.format.row_bytes(self.cols);
        if row.and_then(|row| row.checked_mul(self.rows)) == Some(self.bytes.len()) {
            return Ok(());
        }
        let (op, got) = (format!("bytes of {}", self.name), [self.rows, self.bytes.len() / self.rows.max(1)]);
        Err(Error::Shape { op, expected: [self.rows, row.unwrap_or(0)], got })
    }
}

/// What a pass costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Multiplications and additions of matrix products and attention.
    pub flops: u64,
    /// Bytes of weights read; an embedding counts the rows it looks up.
    pub weight_bytes: u64,
    /// Bytes of cached keys and values read, each position once per row that attends to it.
    pub kv_bytes: u64,
}

/// The checking backend. The first mismatch is kept, later ones are its consequences.
#[derive(Debug, Default)]
pub struct Shapes {
    error: Option<Error>,
    work: Work,
    elements: u64,
    used: BTreeSet<&'static str>,
    multiplied: BTreeSet<String>,
}

/// How many rows were routed, and to how many experts each.
#[derive(Clone, Copy, Debug)]
pub struct ShapesRoutes {
    rows: usize,
    used: usize,
    capacity: usize,
}

/// A weight's name and dimensions.
#[derive(Clone, Debug)]
pub struct ShapesWeight {
    name: String,
    /// The file's name of what this is some rows of.
    whole: String,
    format: Format,
    rows: usize,
    cols: usize,
}

impl ShapesWeight {
    fn bytes(&self, rows: usize) -> u64 {
        product(&[rows, self.format.row_bytes(self.cols).unwrap_or(0)])
    }
}

/// A buffer's dimensions.
#[derive(Clone, Copy, Debug)]
pub struct ShapesBuf {
    rows: usize,
    width: usize,
    capacity: usize,
}

impl ShapesBuf {
    fn shape(&self) -> [usize; 2] {
        [self.rows, self.width]
    }
}

/// A product that stays at the largest number rather than wrapping.
fn product(factors: &[usize]) -> u64 {
    factors.iter().fold(1, |product: u64, &factor| product.saturating_mul(factor as u64))
}

impl Shapes {
    /// The work since the last call, or the first mismatch.
    ///
    /// # Errors
    /// [`Error::Shape`] naming the operation and, where there is one, the tensor.
    pub fn finish(&mut self) -> Result<Work, Error> {
        let work = std::mem::take(&mut self.work);
        self.error.take().map_or(Ok(work), Err)
    }

    /// Elements of all buffers so far.
    pub fn elements(&self) -> u64 {
        self.elements
    }

    /// The operations so far that a backend may be without, by the names that [`Prims::WITHOUT`] uses.
    pub fn used(&self) -> &BTreeSet<&'static str> {
        &self.used
    }

    /// The file's names of the weights so far that something was multiplied with, or that were looked up in.
    pub fn multiplied(&self) -> &BTreeSet<String> {
        &self.multiplied
    }

    fn expect(&mut self, op: impl FnOnce() -> String, expected: [usize; 2], got: [usize; 2]) {
        if expected != got && self.error.is_none() {
            self.error = Some(Error::Shape { op: op(), expected, got });
        }
    }

    /// `got` must be below `end`: row counts, token ids, positions.
    fn expect_below(&mut self, op: impl FnOnce() -> String, end: usize, got: usize) {
        if got >= end && self.error.is_none() {
            self.error = Some(Error::Shape { op: op(), expected: [0, end.saturating_sub(1)], got: [got, got] });
        }
    }

    /// Sets the rows in flight of `out`.
    fn produce(&mut self, op: &str, out: &mut ShapesBuf, rows: usize) {
        out.rows = rows;
        let capacity = out.capacity;
        self.expect_below(|| format!("{op}: rows"), capacity.saturating_add(1), rows);
    }

    fn vector(&mut self, op: &str, w: &ShapesWeight, width: usize) {
        self.expect(|| format!("{op} {}", w.name), [1, width], [w.rows, w.cols]);
        self.work.weight_bytes = self.work.weight_bytes.saturating_add(w.bytes(1));
    }

    /// Notes that a weight is multiplied with.
    fn multiply(&mut self, w: &ShapesWeight) {
        if !self.multiplied.contains(&w.whole) {
            self.multiplied.insert(w.whole.clone());
        }
    }

    fn product(&mut self, out: &mut ShapesBuf, x: &ShapesBuf, w: &ShapesWeight, rows: usize) {
        self.multiply(w);
        self.produce("matmul", out, rows);
        self.expect(|| format!("matmul {}", w.name), [out.width, x.width], [w.rows, w.cols]);
        self.work.flops = self.work.flops.saturating_add(product(&[2, rows, w.rows, w.cols]));
        self.work.weight_bytes = self.work.weight_bytes.saturating_add(w.bytes(w.rows));
    }

    /// `part` must go into `whole` without a rest.
    fn divides(&mut self, op: impl FnOnce() -> String, part: usize, whole: usize) {
        let fits = whole.checked_rem(part) == Some(0);
        self.expect(op, [part, whole], if fits { [part, whole] } else { [part, 0] });
    }

    /// A vector of a run or of a row.
    fn spread(&mut self, op: &str, w: &ShapesWeight, run: usize, width: usize) {
        self.vector(op, w, if w.cols == width { width } else { run });
    }

    /// A state of a layer must have room for what is kept there.
    fn state(&mut self, op: &str, plan: &KvPlan, (layer, slot): (usize, usize), len: usize) {
        let kept = plan.layers.get(layer).and_then(|layer| layer.states.get(slot)).copied().unwrap_or(0);
        self.expect(|| format!("{op}: state"), [1, len], [1, kept]);
    }

    /// A step's places must be one per row and lie within the cache.
    fn places(&mut self, op: &str, rows: usize, plan: &KvPlan, layer: usize, step: &Step) {
        self.expect(|| format!("{op}: positions and sequences"), [rows, rows], lengths(step));
        self.expect_below(|| format!("{op}: layer"), plan.layers.len(), layer);
        for (&position, &sequence) in step.positions.iter().zip(step.sequences) {
            self.expect_below(|| format!("{op}: position"), plan.context, position as usize);
            self.expect_below(|| format!("{op}: sequence"), plan.sequences, sequence as usize);
        }
    }
}

fn lengths(step: &Step) -> [usize; 2] {
    [step.positions.len(), step.sequences.len()]
}

impl Prims for Shapes {
    type Weight = ShapesWeight;
    type Buf = ShapesBuf;
    type Kv = KvPlan;
    type Rope = Rope;
    type Snapshot = ShapesBuf;
    type Routes = ShapesRoutes;

    const READS_WEIGHTS: bool = false;

    fn weight(&mut self, tensor: Tensor) -> Result<ShapesWeight, Error> {
        if !tensor.bytes.is_empty() || tensor.format.row_bytes(tensor.cols).is_none() {
            tensor.check()?;
        }
        let whole = tensor.whole().0.to_owned();
        Ok(ShapesWeight { name: tensor.name, whole, format: tensor.format, rows: tensor.rows, cols: tensor.cols })
    }

    fn buffer(&mut self, rows: usize, width: usize) -> ShapesBuf {
        self.elements = self.elements.saturating_add(product(&[rows, width]));
        ShapesBuf { rows: 0, width, capacity: rows }
    }

    fn kv(&mut self, plan: &KvPlan) -> KvPlan {
        plan.clone()
    }

    fn routes(&mut self, rows: usize, used: usize) -> ShapesRoutes {
        ShapesRoutes { rows: 0, used, capacity: rows }
    }

    fn rope_table(&mut self, rope: Rope) -> Rope {
        rope
    }

    fn embed(&mut self, out: &mut ShapesBuf, table: &ShapesWeight, step: &Step) {
        let rows = step.tokens.len();
        self.multiply(table);
        self.produce("embed", out, rows);
        self.expect(|| "embed: positions and sequences".into(), [rows, rows], lengths(step));
        self.expect(|| format!("embed {}", table.name), [table.rows, out.width], [table.rows, table.cols]);
        for &token in step.tokens {
            self.expect_below(|| format!("embed {}: token", table.name), table.rows, token as usize);
        }
        self.work.weight_bytes = self.work.weight_bytes.saturating_add(table.bytes(rows));
    }

    fn rms_norm(&mut self, out: &mut ShapesBuf, x: &ShapesBuf, w: &ShapesWeight, _: f32) {
        self.produce("rms_norm", out, x.rows);
        self.expect(|| format!("rms_norm {}", w.name), x.shape(), out.shape());
        self.vector("rms_norm", w, x.width);
    }

    fn norm(&mut self, x: &mut ShapesBuf, norm: Norm, weight: Option<&ShapesWeight>, bias: Option<&ShapesWeight>) {
        // The usual norm of heads is everywhere.
        if norm.kind != NormKind::Rms || bias.is_some() || weight.is_none_or(|weight| weight.cols != norm.run) {
            self.used.insert("norm");
        }
        let names = [weight, bias].into_iter().flatten().map(|w| format!(" {}", w.name)).collect::<String>();
        self.divides(|| format!("norm{names}"), norm.run, x.width);
        for w in [weight, bias].into_iter().flatten() {
            self.spread("norm", w, norm.run, x.width);
        }
    }

    fn matmul(&mut self, out: &mut ShapesBuf, x: &ShapesBuf, w: &ShapesWeight) {
        self.product(out, x, w, x.rows);
    }

    fn matmul_rows(&mut self, out: &mut ShapesBuf, x: &ShapesBuf, w: &ShapesWeight, step: &Step) {
        for &row in step.outputs {
            self.expect_below(|| format!("matmul {}: output", w.name), x.rows, row as usize);
        }
        self.product(out, x, w, step.outputs.len());
    }

    fn add_bias(&mut self, x: &mut ShapesBuf, bias: &ShapesWeight) {
        self.vector("add_bias", bias, x.width);
    }

    fn rope(&mut self, x: &mut ShapesBuf, rope: &Rope, head_dim: usize, step: &Step) {
        let whole = x.width.checked_rem(head_dim) == Some(0);
        self.expect(|| "rope: head".into(), [x.rows, head_dim], [x.rows, if whole { head_dim } else { x.width }]);
        self.expect(|| "rope: positions".into(), [x.rows, x.rows], lengths(step));
        self.expect_below(|| "rope: pairs".into(), head_dim / 2 + 1, rope.frequencies.len());
    }

    fn kv_write(&mut self, kv: &mut KvPlan, layer: usize, k: &ShapesBuf, v: &ShapesBuf, step: &Step) {
        self.expect_below(|| "kv_write: layer".into(), kv.layers.len(), layer);
        let kept = kv.layers.get(layer).copied().unwrap_or_default();
        self.expect(|| "kv_write: keys".into(), [k.rows, kept.kv_heads * kept.key_dim], k.shape());
        self.expect(|| "kv_write: values".into(), [k.rows, kept.kv_heads * kept.value_dim], v.shape());
        self.places("kv_write", k.rows, kv, layer, step);
    }

    fn attend(
        &mut self,
        out: &mut ShapesBuf,
        q: &ShapesBuf,
        kv: &KvPlan,
        layer: usize,
        attention: Attention<'_, ShapesWeight>,
        step: &Step,
    ) {
        let Attention { heads, mask, soft_cap, alibi, sinks, relative } = attention;
        let special = mask != Mask::Causal || soft_cap.is_some() || alibi.is_some();
        if special || sinks.is_some() || relative.is_some() {
            self.used.insert("attend with a mask, cap or bias");
        }
        self.produce("attend", out, q.rows);
        self.expect(|| "attend: queries".into(), [q.rows, heads.heads * heads.key_dim], q.shape());
        self.expect(|| "attend: output".into(), [q.rows, heads.heads * heads.value_dim], out.shape());
        let kept = kv.layers.get(layer).copied().unwrap_or_default();
        self.expect(|| "attend: head widths".into(), [kept.key_dim, kept.value_dim], [heads.key_dim, heads.value_dim]);
        let whole = heads.heads.checked_rem(kept.kv_heads) == Some(0);
        let fitting = if whole { heads.heads } else { 0 };
        self.expect(|| "attend: heads".into(), [heads.heads, kept.kv_heads], [fitting, heads.kv_heads]);
        if let Some(sinks) = sinks {
            self.vector("attend: sinks", sinks, heads.heads);
        }
        if let Some(relative) = relative {
            let table = [relative.table.rows, relative.table.cols];
            self.expect(|| "attend: scores by distance".into(), [relative.buckets, heads.heads], table);
        }
        self.places("attend", q.rows, kv, layer, step);
        for &position in step.positions {
            let seen = mask.seen(position as usize, position as usize + 1).len();
            let (macs, read) = (
                product(&[2, seen, heads.heads, heads.key_dim + heads.value_dim]),
                product(&[seen, kept.kv_heads, kv.head_bytes(layer).unwrap_or(0)]),
            );
            self.work.flops = self.work.flops.saturating_add(macs);
            self.work.kv_bytes = self.work.kv_bytes.saturating_add(read);
        }
    }

    fn unary(&mut self, _: &mut ShapesBuf, f: Unary) {
        if f != Unary::Silu {
            self.used.insert("unary");
        }
    }

    fn mul(&mut self, x: &mut ShapesBuf, y: &ShapesBuf) {
        self.expect(|| "mul".into(), x.shape(), y.shape());
    }

    fn add(&mut self, x: &mut ShapesBuf, y: &ShapesBuf) {
        self.expect(|| "add".into(), x.shape(), y.shape());
    }

    fn copy(&mut self, out: &mut ShapesBuf, x: &ShapesBuf, columns: Columns) {
        self.used.insert("copy");
        self.produce("copy", out, x.rows);
        let (from, to) = columns.ends();
        self.expect_below(|| "copy: columns read".into(), x.width + 1, from);
        self.expect_below(|| "copy: columns written".into(), out.width + 1, to);
    }

    fn add_positions(&mut self, x: &mut ShapesBuf, table: &ShapesWeight, step: &Step) {
        self.used.insert("add_positions");
        self.expect(|| format!("add_positions {}", table.name), [table.rows, x.width], [table.rows, table.cols]);
        for &position in step.positions {
            self.expect_below(|| format!("add_positions {}: position", table.name), table.rows, position as usize);
        }
        self.work.weight_bytes = self.work.weight_bytes.saturating_add(table.bytes(x.rows));
    }

    fn mul_columns(&mut self, x: &mut ShapesBuf, w: &ShapesWeight) {
        self.used.insert("mul_columns");
        self.vector("mul_columns", w, x.width);
    }

    fn mul_groups(&mut self, x: &mut ShapesBuf, y: &ShapesBuf) {
        self.used.insert("mul_groups");
        self.expect(|| "mul_groups: rows".into(), [x.rows, 1], [y.rows, 1]);
        self.divides(|| "mul_groups".into(), y.width, x.width);
    }

    fn dot_groups(&mut self, out: &mut ShapesBuf, x: &ShapesBuf, y: &ShapesBuf) {
        self.used.insert("dot_groups");
        self.produce("dot_groups", out, x.rows);
        self.expect(|| "dot_groups".into(), x.shape(), y.shape());
        self.divides(|| "dot_groups".into(), out.width, x.width);
    }

    fn matmul_heads(&mut self, out: &mut ShapesBuf, x: &ShapesBuf, w: &ShapesWeight, heads: usize) {
        self.used.insert("matmul_heads");
        self.multiply(w);
        self.produce("matmul_heads", out, x.rows);
        let expected = [out.width, x.width];
        self.expect(|| format!("matmul_heads {}", w.name), expected, [w.rows, w.cols.saturating_mul(heads)]);
        self.work.flops = self.work.flops.saturating_add(product(&[2, x.rows, w.rows, w.cols]));
        self.work.weight_bytes = self.work.weight_bytes.saturating_add(w.bytes(w.rows));
    }

    fn conv(
        &mut self,
        out: &mut ShapesBuf,
        kv: &mut KvPlan,
        place: (usize, usize),
        x: &ShapesBuf,
        w: &ShapesWeight,
        step: &Step,
    ) {
        self.used.insert("conv");
        self.produce("conv", out, x.rows);
        self.expect(|| format!("conv {}", w.name), [x.width, w.cols], [w.rows, w.cols]);
        self.expect(|| format!("conv {}", w.name), x.shape(), out.shape());
        self.places("conv", x.rows, kv, place.0, step);
        self.state("conv", kv, place, w.cols.saturating_sub(1) * x.width);
        self.work.weight_bytes = self.work.weight_bytes.saturating_add(w.bytes(w.rows));
    }

    fn recur(
        &mut self,
        out: &mut ShapesBuf,
        kv: &mut KvPlan,
        place: (usize, usize),
        inputs: Recurrence<'_, ShapesWeight, ShapesBuf>,
        step: &Step,
    ) {
        self.used.insert("recur");
        let Recurrence { heads, key_heads, key_dim, value_dim, q, k, v, decay, erase, bonus } = inputs;
        let rows = v.rows;
        self.produce("recur", out, rows);
        self.divides(|| "recur: heads of keys".into(), key_heads, heads);
        let (keys, values) = ([rows, key_heads * key_dim], [rows, heads * value_dim]);
        let wide = [rows, heads * key_dim];
        let mut expected = vec![("queries", keys, q), ("keys", keys, k), ("values", values, v)];
        match decay {
            Decay::Keys(factors) => expected.push(("decay", wide, factors)),
            Decay::Heads(factors) => expected.push(("decay", [rows, heads], factors)),
            Decay::Rates { time, .. } => expected.push(("time", [rows, heads], time)),
        }
        if let Some((a, b)) = erase {
            expected.extend([("erased", wide, a), ("given back", wide, b)]);
        }
        for (name, shape, x) in expected {
            self.expect(|| format!("recur: {name}"), shape, x.shape());
        }
        let out_shape = out.shape();
        self.expect(|| "recur: output".into(), values, out_shape);
        if let Decay::Rates { rate, .. } = decay {
            self.expect(|| format!("recur {}", rate.name), [1, heads * key_dim], [1, rate.rows * rate.cols]);
        }
        if let Some(bonus) = bonus {
            self.expect(|| format!("recur {}", bonus.name), [1, heads * key_dim], [1, bonus.rows * bonus.cols]);
        }
        self.places("recur", rows, kv, place.0, step);
        self.state("recur", kv, place, inputs.state_len());
        self.work.flops = self.work.flops.saturating_add(product(&[6, rows, inputs.state_len()]));
    }

    fn route(&mut self, routes: &mut ShapesRoutes, logits: &ShapesBuf, bias: Option<&ShapesWeight>, router: Router) {
        self.used.insert("route");
        routes.rows = logits.rows;
        let Router { experts, used, groups, .. } = router;
        self.expect(|| "route: logits".into(), [logits.rows, experts], logits.shape());
        self.expect(|| "route: choices".into(), [1, used], [1, routes.used]);
        self.expect_below(|| "route: choices".into(), experts + 1, used);
        self.expect_below(|| "route: rows".into(), routes.capacity + 1, logits.rows);
        self.divides(|| "route: groups".into(), groups.0, experts);
        if let Some(bias) = bias {
            self.vector("route", bias, experts);
        }
    }

    fn choices(&mut self, routes: &ShapesRoutes) -> ShapesBuf {
        let ShapesRoutes { rows, used: width, .. } = *routes;
        ShapesBuf { rows, width, capacity: rows }
    }

    /// The first expert every time: as many as there would be.
    fn chosen(&mut self, choices: &ShapesBuf, out: &mut Vec<(u32, f32)>) {
        out.clear();
        out.resize(choices.rows * choices.width, (0, 0.0));
    }

    fn matmul_experts(&mut self, out: &mut ShapesBuf, x: &ShapesBuf, w: &ShapesWeight, routes: &ShapesRoutes) {
        self.multiply(w);
        let choices = routes.rows * routes.used;
        let own = x.rows == choices;
        self.expect(
            || format!("matmul_experts {}: rows", w.name),
            [if own { choices } else { routes.rows }, 1],
            [x.rows, 1],
        );
        self.produce("matmul_experts", out, choices);
        self.expect(|| format!("matmul_experts {}", w.name), [w.rows, x.width], [w.rows, w.cols]);
        self.divides(|| format!("matmul_experts {}", w.name), out.width, w.rows);
        self.work.flops = self.work.flops.saturating_add(product(&[2, choices, out.width, w.cols]));
        let read = w.bytes(choices.saturating_mul(out.width).min(w.rows));
        self.work.weight_bytes = self.work.weight_bytes.saturating_add(read);
    }

    fn add_bias_experts(&mut self, x: &mut ShapesBuf, bias: &ShapesWeight, routes: &ShapesRoutes) {
        let expected = [routes.rows * routes.used, bias.cols];
        self.expect(|| format!("add_bias_experts {}", bias.name), expected, x.shape());
    }

    fn scale_experts(&mut self, x: &mut ShapesBuf, routes: &ShapesRoutes) {
        self.expect(|| "scale_experts".into(), [routes.rows * routes.used, 1], [x.rows, 1]);
    }

    fn sum_experts(&mut self, out: &mut ShapesBuf, x: &ShapesBuf, routes: &ShapesRoutes) {
        self.produce("sum_experts", out, routes.rows);
        self.expect(|| "sum_experts".into(), [routes.rows * routes.used, out.width], x.shape());
    }

    fn upload(&mut self, x: &mut ShapesBuf, values: &[f32], step: &Step) {
        let rows = step.tokens.len();
        self.produce("upload", x, rows);
        self.expect(|| "upload: values".into(), [1, rows * x.width], [1, values.len()]);
    }

    fn snapshot(&mut self, x: &ShapesBuf) -> ShapesBuf {
        *x
    }

    /// Zeros: as many as there would be values.
    fn elements(&self, snapshot: &ShapesBuf) -> usize {
        snapshot.rows * snapshot.width
    }

    fn download(&mut self, snapshot: &ShapesBuf, out: &mut Vec<f32>) {
        out.clear();
        out.resize(snapshot.rows * snapshot.width, 0.0);
    }
}

impl Ops for Shapes {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Heads, KvFormat, LayerCache, Pairing};

    fn weight(name: &str, rows: usize, cols: usize) -> ShapesWeight {
        let bytes = vec![0; rows * cols / 256 * 144];
        Shapes::default()
            .weight(Tensor { name: name.into(), format: Format::Q4K, rows, cols, bytes: bytes.into() })
            .expect("the right number of bytes")
    }

    /// A feed-forward block of width 256 over three tokens with a given up matrix.
    fn feed_forward(up: &ShapesWeight) -> Result<Work, Error> {
        let mut ops = Shapes::default();
        let (mut x, mut h, mut a, mut b) =
            (ops.buffer(4, 256), ops.buffer(4, 256), ops.buffer(4, 512), ops.buffer(4, 512));
        let step = Step { tokens: &[0, 1, 2], positions: &[0, 1, 2], sequences: &[0; 3], outputs: &[], decoding: 0 };
        ops.embed(&mut x, &weight("token_embd.weight", 10, 256), &step);
        ops.rms_norm(&mut h, &x, &weight("blk.0.ffn_norm.weight", 1, 256), 0.0);
        ops.matmul2((&mut a, &weight("blk.0.ffn_gate.weight", 512, 256)), (&mut b, up), &h);
        ops.swiglu(&mut a, &b);
        ops.matmul_add(&mut x, &a, &weight("blk.0.ffn_down.weight", 256, 512), &mut h);
        ops.finish()
    }

    #[test]
    fn work_is_counted() {
        let work = feed_forward(&weight("blk.0.ffn_up.weight", 512, 256)).expect("shapes fit");
        let elements = 3 * 512 * 256;
        assert_eq!(work.flops, 2 * 3 * elements);
        assert_eq!(work.weight_bytes, (elements + 256 + 3 * 256) / 256 * 144);
        assert_eq!(work.kv_bytes, 0);
    }

    #[test]
    fn a_wrong_weight_is_named() {
        for (rows, cols, message) in [
            (512, 512, "matmul blk.0.ffn_up.weight: expected [512, 256], got [512, 512]"),
            (256, 256, "matmul blk.0.ffn_up.weight: expected [512, 256], got [256, 256]"),
        ] {
            let error = feed_forward(&weight("blk.0.ffn_up.weight", rows, cols)).expect_err("must not fit");
            assert_eq!(error.to_string(), message);
        }
    }

    #[test]
    fn weights_that_are_multiplied_with_are_named_as_in_the_file() {
        let mut ops = Shapes::default();
        let step = Step { tokens: &[0], positions: &[0], sequences: &[0], outputs: &[0], decoding: 0 };
        let [mut x, mut out] = [256, 512].map(|width| ops.buffer(1, width));
        ops.embed(&mut x, &weight("table", 4, 256), &step);
        ops.rms_norm(&mut x.clone(), &x, &weight("norm", 1, 256), 0.0);
        ops.matmul(&mut out, &x, &weight("fused[512..1024]", 512, 256));
        ops.matmul_rows(&mut out, &x, &weight("head", 512, 256), &step);
        ops.matmul_heads(&mut out, &x, &weight("heads", 512, 256), 1);
        let mut routes = ops.routes(1, 1);
        routes.rows = 1;
        ops.matmul_experts(&mut out, &x, &weight("experts", 512, 256), &routes);
        let names: Vec<&str> = ops.multiplied().iter().map(String::as_str).collect();
        assert_eq!(names, ["experts", "fused", "head", "heads", "table"]);
        assert!(ops.finish().is_ok());
    }

    #[test]
    fn attention_is_checked_and_counted() {
        let layers = vec![LayerCache::attention(2, 8, 4)];
        let plan = KvPlan {
            layers,
            context: 4,
            step: 4,
            sequences: 1,
            pool: None,
            keys: KvFormat::F16,
            values: KvFormat::F32,
        };
        let heads = Heads { heads: 4, kv_heads: 2, key_dim: 8, value_dim: 4, scale: 1.0 };
        let rope = Rope { pairing: Pairing::Neox, frequencies: vec![1.0; 4], magnitude: 1.0 };
        let run = |layer: usize, heads: Heads, rope: &Rope, positions: &[u32]| {
            let mut ops = Shapes::default();
            let buf = |width| ShapesBuf { rows: 2, width, capacity: 2 };
            let (mut q, k, v, mut out, mut kv) = (buf(32), buf(16), buf(8), buf(16), ops.kv(&plan));
            let step = Step { tokens: &[0, 0], positions, sequences: &[0, 0], outputs: &[], decoding: 0 };
            ops.rope(&mut q, rope, 8, &step);
            ops.kv_write(&mut kv, layer, &k, &v, &step);
            ops.attend(&mut out, &q, &kv, layer, Attention::causal(heads), &step);
            ops.finish().map_err(|error| error.to_string())
        };
        // Three and four positions are seen by 4 heads of 8 + 4; 2 heads of 8 halves and 4 floats are read.
        let work = Work { flops: 2 * 7 * 4 * 12, weight_bytes: 0, kv_bytes: 7 * 2 * 32 };
        assert_eq!(run(0, heads, &rope, &[2, 3]), Ok(work));
        let error = |message: &str| Err(message.to_owned());
        assert_eq!(run(0, heads, &rope, &[3, 4]), error("kv_write: position: expected [0, 3], got [4, 4]"));
        assert_eq!(run(1, heads, &rope, &[0, 1]), error("kv_write: layer: expected [0, 0], got [1, 1]"));
        assert_eq!(
            run(0, Heads { key_dim: 4, heads: 8, ..heads }, &rope, &[0, 1]),
            error("attend: output: expected [2, 32], got [2, 16]")
        );
        assert_eq!(
            run(0, heads, &Rope { frequencies: vec![1.0; 5], ..rope.clone() }, &[0, 1]),
            error("rope: pairs: expected [0, 4], got [5, 5]")
        );
    }

    #[test]
    fn too_many_rows_are_noticed() {
        let mut ops = Shapes::default();
        let mut x = ops.buffer(1, 256);
        let step = Step { tokens: &[0, 1], positions: &[0, 1], sequences: &[0, 0], outputs: &[], decoding: 0 };
        ops.embed(&mut x, &weight("token_embd.weight", 10, 256), &step);
        let message = ops.finish().expect_err("two rows in a buffer of one").to_string();
        assert_eq!(message, "embed: rows: expected [0, 1], got [2, 2]");
        assert!(ops.finish().is_ok(), "finish starts afresh");
    }
}
