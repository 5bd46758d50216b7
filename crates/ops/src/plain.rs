//! A backend with its fusions switched off: tells a wrong fusion from a wrong primitive.

use std::task::{Context, Poll};

use crate::{
    Attention, Columns, Error, KvPlan, Norm, Ops, Prims, Recurrence, Rope, Router, Step, Stored, Tensor, Unary,
};

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
    type Routes = B::Routes;

    const WITHOUT: &'static [&'static str] = B::WITHOUT;

    fn weight(&mut self, tensor: Tensor) -> Result<B::Weight, Error> {
        self.0.weight(tensor)
    }
    fn buffer(&mut self, rows: usize, width: usize) -> B::Buf {
        self.0.buffer(rows, width)
    }
    fn check_kv(&self, plan: &KvPlan) -> Result<(), Error> {
        self.0.check_kv(plan)
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
    fn routes(&mut self, rows: usize, used: usize) -> B::Routes {
        self.0.routes(rows, used)
    }
    fn norm(&mut self, x: &mut B::Buf, norm: Norm, weight: Option<&B::Weight>, bias: Option<&B::Weight>) {
        self.0.norm(x, norm, weight, bias);
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
    fn attend(
        &mut self,
        out: &mut B::Buf,
        q: &B::Buf,
        kv: &B::Kv,
        layer: usize,
        attention: Attention<'_, B::Weight>,
        step: &Step,
    ) {
        self.0.attend(out, q, kv, layer, attention, step);
    }
    fn unary(&mut self, x: &mut B::Buf, f: Unary) {
        self.0.unary(x, f);
    }
    fn copy(&mut self, out: &mut B::Buf, x: &B::Buf, columns: Columns) {
        self.0.copy(out, x, columns);
    }
    fn add_positions(&mut self, x: &mut B::Buf, table: &B::Weight, step: &Step) {
        self.0.add_positions(x, table, step);
    }
    fn mul_columns(&mut self, x: &mut B::Buf, w: &B::Weight) {
        self.0.mul_columns(x, w);
    }
    fn mul_groups(&mut self, x: &mut B::Buf, y: &B::Buf) {
        self.0.mul_groups(x, y);
    }
    fn dot_groups(&mut self, out: &mut B::Buf, x: &B::Buf, y: &B::Buf) {
        self.0.dot_groups(out, x, y);
    }
    fn matmul_heads(&mut self, out: &mut B::Buf, x: &B::Buf, w: &B::Weight, heads: usize) {
        self.0.matmul_heads(out, x, w, heads);
    }
    fn conv(
        &mut self,
        out: &mut B::Buf,
        kv: &mut B::Kv,
        place: (usize, usize),
        x: &B::Buf,
        w: &B::Weight,
        step: &Step,
    ) {
        self.0.conv(out, kv, place, x, w, step);
    }
    fn recur(
        &mut self,
        out: &mut B::Buf,
        kv: &mut B::Kv,
        place: (usize, usize),
        inputs: Recurrence<'_, B::Weight, B::Buf>,
        step: &Step,
    ) {
        self.0.recur(out, kv, place, inputs, step);
    }
    fn route(&mut self, routes: &mut B::Routes, logits: &B::Buf, bias: Option<&B::Weight>, router: Router) {
        self.0.route(routes, logits, bias, router);
    }
    fn choices(&mut self, routes: &B::Routes) -> B::Snapshot {
        self.0.choices(routes)
    }
    fn chosen(&mut self, choices: &B::Snapshot, out: &mut Vec<(u32, f32)>) {
        self.0.chosen(choices, out);
    }
    fn matmul_experts(&mut self, out: &mut B::Buf, x: &B::Buf, w: &B::Weight, routes: &B::Routes) {
        self.0.matmul_experts(out, x, w, routes);
    }
    fn add_bias_experts(&mut self, x: &mut B::Buf, bias: &B::Weight, routes: &B::Routes) {
        self.0.add_bias_experts(x, bias, routes);
    }
    fn scale_experts(&mut self, x: &mut B::Buf, routes: &B::Routes) {
        self.0.scale_experts(x, routes);
    }
    fn sum_experts(&mut self, out: &mut B::Buf, x: &B::Buf, routes: &B::Routes) {
        self.0.sum_experts(out, x, routes);
    }
    fn mul(&mut self, x: &mut B::Buf, y: &B::Buf) {
        self.0.mul(x, y);
    }
    fn add(&mut self, x: &mut B::Buf, y: &B::Buf) {
        self.0.add(x, y);
    }
    fn upload(&mut self, x: &mut B::Buf, values: &[f32], step: &Step) {
        self.0.upload(x, values, step);
    }
    fn snapshot(&mut self, x: &B::Buf) -> B::Snapshot {
        self.0.snapshot(x)
    }
    fn poll_read(&mut self, snapshot: &mut B::Snapshot, cx: &mut Context<'_>) -> Poll<()> {
        self.0.poll_read(snapshot, cx)
    }
    fn download(&mut self, snapshot: &B::Snapshot, out: &mut Vec<f32>) {
        self.0.download(snapshot, out);
    }
    fn stored<'a>(&mut self, kv: &'a mut B::Kv) -> Option<&'a mut dyn Stored> {
        self.0.stored(kv)
    }
    fn finish(&mut self) -> Result<(), Error> {
        self.0.finish()
    }
}
