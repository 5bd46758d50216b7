//! A backend that computes nothing: it checks that the shapes of a pass belong together and counts the work.
//!
//! Run the model on it once at load; then no other backend needs to look at a shape.

use candor_quant::Format;

use crate::{Error, Heads, KvPlan, Ops, Prims, Rope, Step, Tensor};

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
}

/// A weight's name and dimensions.
#[derive(Clone, Debug)]
pub struct ShapesWeight {
    name: String,
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

    fn product(&mut self, out: &mut ShapesBuf, x: &ShapesBuf, w: &ShapesWeight, rows: usize) {
        self.produce("matmul", out, rows);
        self.expect(|| format!("matmul {}", w.name), [out.width, x.width], [w.rows, w.cols]);
        self.work.flops = self.work.flops.saturating_add(product(&[2, rows, w.rows, w.cols]));
        self.work.weight_bytes = self.work.weight_bytes.saturating_add(w.bytes(w.rows));
    }

    /// A step's places must be one per row and lie within the cache.
    fn places(&mut self, op: &str, rows: usize, plan: &KvPlan, layer: usize, step: &Step) {
        self.expect(|| format!("{op}: positions and sequences"), [rows, rows], lengths(step));
        self.expect_below(|| format!("{op}: layer"), plan.layers, layer);
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

    fn weight(&mut self, tensor: Tensor) -> Result<ShapesWeight, Error> {
        tensor.check()?;
        Ok(ShapesWeight { name: tensor.name, format: tensor.format, rows: tensor.rows, cols: tensor.cols })
    }

    fn buffer(&mut self, rows: usize, width: usize) -> ShapesBuf {
        ShapesBuf { rows: 0, width, capacity: rows }
    }

    fn kv(&mut self, plan: &KvPlan) -> KvPlan {
        *plan
    }

    fn rope_table(&mut self, rope: Rope) -> Rope {
        rope
    }

    fn embed(&mut self, out: &mut ShapesBuf, table: &ShapesWeight, step: &Step) {
        let rows = step.tokens.len();
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

    fn head_norm(&mut self, x: &mut ShapesBuf, w: &ShapesWeight, head_dim: usize, _: f32) {
        let whole = x.width.checked_rem(head_dim) == Some(0);
        self.expect(
            || format!("head_norm {}", w.name),
            [x.rows, head_dim],
            [x.rows, if whole { head_dim } else { x.width }],
        );
        self.vector("head_norm", w, head_dim);
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
        self.expect(|| "kv_write: keys".into(), [k.rows, kv.kv_heads * kv.key_dim], k.shape());
        self.expect(|| "kv_write: values".into(), [k.rows, kv.kv_heads * kv.value_dim], v.shape());
        self.places("kv_write", k.rows, kv, layer, step);
    }

    fn attend(&mut self, out: &mut ShapesBuf, q: &ShapesBuf, kv: &KvPlan, layer: usize, heads: Heads, step: &Step) {
        self.produce("attend", out, q.rows);
        self.expect(|| "attend: queries".into(), [q.rows, heads.heads * heads.key_dim], q.shape());
        self.expect(|| "attend: output".into(), [q.rows, heads.heads * heads.value_dim], out.shape());
        self.expect(|| "attend: head widths".into(), [kv.key_dim, kv.value_dim], [heads.key_dim, heads.value_dim]);
        let whole = heads.heads.checked_rem(kv.kv_heads) == Some(0);
        let fitting = if whole { heads.heads } else { 0 };
        self.expect(|| "attend: heads".into(), [heads.heads, kv.kv_heads], [fitting, heads.kv_heads]);
        self.places("attend", q.rows, kv, layer, step);
        for &position in step.positions {
            let seen = position as usize + 1;
            let (macs, read) = (
                product(&[2, seen, heads.heads, heads.key_dim + heads.value_dim]),
                product(&[seen, kv.kv_heads, kv.head_bytes().unwrap_or(0)]),
            );
            self.work.flops = self.work.flops.saturating_add(macs);
            self.work.kv_bytes = self.work.kv_bytes.saturating_add(read);
        }
    }

    fn silu(&mut self, _: &mut ShapesBuf) {}

    fn mul(&mut self, x: &mut ShapesBuf, y: &ShapesBuf) {
        self.expect(|| "mul".into(), x.shape(), y.shape());
    }

    fn add(&mut self, x: &mut ShapesBuf, y: &ShapesBuf) {
        self.expect(|| "add".into(), x.shape(), y.shape());
    }

    fn upload(&mut self, x: &mut ShapesBuf, rows: usize, values: &[f32]) {
        self.produce("upload", x, rows);
        self.expect(|| "upload: values".into(), [1, rows * x.width], [1, values.len()]);
    }

    fn snapshot(&mut self, x: &ShapesBuf) -> ShapesBuf {
        *x
    }

    /// Zeros: as many as there would be values.
    fn download(&mut self, snapshot: &ShapesBuf, out: &mut Vec<f32>) {
        out.clear();
        out.resize(snapshot.rows * snapshot.width, 0.0);
    }
}

impl Ops for Shapes {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KvFormat, Pairing};

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
        let step = Step { tokens: &[0, 1, 2], positions: &[0, 1, 2], sequences: &[0; 3], outputs: &[] };
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
    fn attention_is_checked_and_counted() {
        let plan = KvPlan {
            layers: 1,
            kv_heads: 2,
            key_dim: 8,
            value_dim: 4,
            context: 4,
            sequences: 1,
            keys: KvFormat::F16,
            values: KvFormat::F32,
        };
        let heads = Heads { heads: 4, kv_heads: 2, key_dim: 8, value_dim: 4, scale: 1.0 };
        let rope = Rope { pairing: Pairing::Neox, frequencies: vec![1.0; 4], magnitude: 1.0 };
        let run = |layer: usize, heads: Heads, rope: &Rope, positions: &[u32]| {
            let mut ops = Shapes::default();
            let buf = |width| ShapesBuf { rows: 2, width, capacity: 2 };
            let (mut q, k, v, mut out, mut kv) = (buf(32), buf(16), buf(8), buf(16), ops.kv(&plan));
            let step = Step { tokens: &[0, 0], positions, sequences: &[0, 0], outputs: &[] };
            ops.rope(&mut q, rope, 8, &step);
            ops.kv_write(&mut kv, layer, &k, &v, &step);
            ops.attend(&mut out, &q, &kv, layer, heads, &step);
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
        let step = Step { tokens: &[0, 1], positions: &[0, 1], sequences: &[0, 0], outputs: &[] };
        ops.embed(&mut x, &weight("token_embd.weight", 10, 256), &step);
        let message = ops.finish().expect_err("two rows in a buffer of one").to_string();
        assert_eq!(message, "embed: rows: expected [0, 1], got [2, 2]");
        assert!(ops.finish().is_ok(), "finish starts afresh");
    }
}
