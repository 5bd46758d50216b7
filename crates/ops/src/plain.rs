//! A backend with its fusions switched off: tells a wrong fusion from a wrong primitive.

use crate::{Error, Heads, KvPlan, Ops, Prims, Rope, Step, Tensor};

/// Runs `B`'s primitives and the default bodies of all fusions.
#[derive(Clone, Debug, Default)]
pub struct Plain<B>(pub B);

impl<B: Prims> Ops for Plain<B> {}

impl<B: Prims> Prims for Plain<B> {
    type Weight = B::Weight;
    type Buf = B::Buf;
    type Kv = B::Kv;
    type Rope = B::Rope;
    type Snapshot = B::Snapshot;

    fn weight(&mut self, tensor: Tensor) -> Result<B::Weight, Error> {
        self.0.weight(tensor)
    }
    fn buffer(&mut self, rows: usize, width: usize) -> B::Buf {
        self.0.buffer(rows, width)
    }
    fn kv(&mut self, plan: &KvPlan) -> B::Kv {
        self.0.kv(plan)
    }
    fn rope_table(&mut self, rope: Rope) -> B::Rope {
        self.0.rope_table(rope)
    }
    fn embed(&mut self, out: &mut B::Buf, table: &B::Weight, step: &Step) {
        self.0.embed(out, table, step);
    }
    fn rms_norm(&mut self, out: &mut B::Buf, x: &B::Buf, w: &B::Weight, eps: f32) {
        self.0.rms_norm(out, x, w, eps);
    }
    fn head_norm(&mut self, x: &mut B::Buf, w: &B::Weight, head_dim: usize, eps: f32) {
        self.0.head_norm(x, w, head_dim, eps);
    }
    fn matmul(&mut self, out: &mut B::Buf, x: &B::Buf, w: &B::Weight) {
        self.0.matmul(out, x, w);
    }
    fn matmul_rows(&mut self, out: &mut B::Buf, x: &B::Buf, w: &B::Weight, step: &Step) {
        self.0.matmul_rows(out, x, w, step);
    }
    fn add_bias(&mut self, x: &mut B::Buf, bias: &B::Weight) {
        self.0.add_bias(x, bias);
    }
    fn rope(&mut self, x: &mut B::Buf, rope: &B::Rope, head_dim: usize, step: &Step) {
        self.0.rope(x, rope, head_dim, step);
    }
    fn kv_write(&mut self, kv: &mut B::Kv, layer: usize, k: &B::Buf, v: &B::Buf, step: &Step) {
        self.0.kv_write(kv, layer, k, v, step);
    }
    fn attend(&mut self, out: &mut B::Buf, q: &B::Buf, kv: &B::Kv, layer: usize, heads: Heads, step: &Step) {
        self.0.attend(out, q, kv, layer, heads, step);
    }
    fn silu(&mut self, x: &mut B::Buf) {
        self.0.silu(x);
    }
    fn mul(&mut self, x: &mut B::Buf, y: &B::Buf) {
        self.0.mul(x, y);
    }
    fn add(&mut self, x: &mut B::Buf, y: &B::Buf) {
        self.0.add(x, y);
    }
    fn upload(&mut self, x: &mut B::Buf, rows: usize, values: &[f32]) {
        self.0.upload(x, rows, values);
    }
    fn snapshot(&mut self, x: &B::Buf) -> B::Snapshot {
        self.0.snapshot(x)
    }
    fn download(&mut self, snapshot: &B::Snapshot, out: &mut Vec<f32>) {
        self.0.download(snapshot, out);
    }
    fn finish(&mut self) -> Result<(), Error> {
        self.0.finish()
    }
}
