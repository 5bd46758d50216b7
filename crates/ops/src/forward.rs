//! Primitives that hand on to another backend, written once.

/// Writes the named primitives of a [`crate::Prims`] that hand on to the one in the field `$base`. `$weight` is a function that gives
/// that backend's weight of one's own. Buffers, caches, routes and snapshots are that backend's.
///
/// A primitive that a wrapper neither writes nor names does not compile, or has its default body.
#[doc(hidden)]
#[macro_export]
macro_rules! forward {
    (@weight $base:tt, $weight:path) => {
        fn weight(&mut self, tensor: $crate::Tensor) -> Result<Self::Weight, $crate::Error> { self.$base.weight(tensor) }
    };
    (@buffer $base:tt, $weight:path) => {
        fn buffer(&mut self, rows: usize, width: usize) -> Self::Buf { self.$base.buffer(rows, width) }
    };
    (@check_kv $base:tt, $weight:path) => {
        fn check_kv(&self, plan: &$crate::KvPlan) -> Result<(), $crate::Error> { self.$base.check_kv(plan) }
    };
    (@kv $base:tt, $weight:path) => {
        fn kv(&mut self, plan: &$crate::KvPlan) -> Self::Kv { self.$base.kv(plan) }
    };
    (@rope_table $base:tt, $weight:path) => {
        fn rope_table(&mut self, rope: $crate::Rope) -> Self::Rope { self.$base.rope_table(rope) }
    };
    (@routes $base:tt, $weight:path) => {
        fn routes(&mut self, rows: usize, used: usize) -> Self::Routes { self.$base.routes(rows, used) }
    };
    (@embed $base:tt, $weight:path) => {
        fn embed(&mut self, out: &mut Self::Buf, table: &Self::Weight, step: &$crate::Step) { self.$base.embed(out, $weight(table), step) }
    };
    (@rms_norm $base:tt, $weight:path) => {
        fn rms_norm(&mut self, out: &mut Self::Buf, x: &Self::Buf, w: &Self::Weight, eps: f32) { self.$base.rms_norm(out, x, $weight(w), eps) }
    };
    (@norm $base:tt, $weight:path) => {
        fn norm(&mut self, x: &mut Self::Buf, norm: $crate::Norm, weight: Option<&Self::Weight>, bias: Option<&Self::Weight>) { self.$base.norm(x, norm, weight.map($weight), bias.map($weight)) }
    };
    (@matmul $base:tt, $weight:path) => {
        fn matmul(&mut self, out: &mut Self::Buf, x: &Self::Buf, w: &Self::Weight) { self.$base.matmul(out, x, $weight(w)) }
    };
    (@matmul_rows $base:tt, $weight:path) => {
        fn matmul_rows(&mut self, out: &mut Self::Buf, x: &Self::Buf, w: &Self::Weight, step: &$crate::Step) { self.$base.matmul_rows(out, x, $weight(w), step) }
    };
    (@add_bias $base:tt, $weight:path) => {
        fn add_bias(&mut self, x: &mut Self::Buf, bias: &Self::Weight) { self.$base.add_bias(x, $weight(bias)) }
    };
    (@rope $base:tt, $weight:path) => {
        fn rope(&mut self, x: &mut Self::Buf, rope: &Self::Rope, head_dim: usize, step: &$crate::Step) { self.$base.rope(x, rope, head_dim, step) }
    };
    (@kv_write $base:tt, $weight:path) => {
        fn kv_write(&mut self, kv: &mut Self::Kv, layer: usize, k: &Self::Buf, v: &Self::Buf, step: &$crate::Step) { self.$base.kv_write(kv, layer, k, v, step) }
    };
    (@attend $base:tt, $weight:path) => {
        fn attend(&mut self, out: &mut Self::Buf, q: &Self::Buf, kv: &Self::Kv, layer: usize, attention: $crate::Attention<'_, Self::Weight>, step: &$crate::Step) { self.$base.attend(out, q, kv, layer, attention.map($weight), step) }
    };
    (@unary $base:tt, $weight:path) => {
        fn unary(&mut self, x: &mut Self::Buf, f: $crate::Unary) { self.$base.unary(x, f) }
    };
    (@mul $base:tt, $weight:path) => {
        fn mul(&mut self, x: &mut Self::Buf, y: &Self::Buf) { self.$base.mul(x, y) }
    };
    (@add $base:tt, $weight:path) => {
        fn add(&mut self, x: &mut Self::Buf, y: &Self::Buf) { self.$base.add(x, y) }
    };
    (@copy $base:tt, $weight:path) => {
        fn copy(&mut self, out: &mut Self::Buf, x: &Self::Buf, columns: $crate::Columns) { self.$base.copy(out, x, columns) }
    };
    (@add_positions $base:tt, $weight:path) => {
        fn add_positions(&mut self, x: &mut Self::Buf, table: &Self::Weight, step: &$crate::Step) { self.$base.add_positions(x, $weight(table), step) }
    };
    (@mul_columns $base:tt, $weight:path) => {
        fn mul_columns(&mut self, x: &mut Self::Buf, w: &Self::Weight) { self.$base.mul_columns(x, $weight(w)) }
    };
    (@mul_groups $base:tt, $weight:path) => {
        fn mul_groups(&mut self, x: &mut Self::Buf, y: &Self::Buf) { self.$base.mul_groups(x, y) }
    };
    (@dot_groups $base:tt, $weight:path) => {
        fn dot_groups(&mut self, out: &mut Self::Buf, x: &Self::Buf, y: &Self::Buf) { self.$base.dot_groups(out, x, y) }
    };
    (@matmul_heads $base:tt, $weight:path) => {
        fn matmul_heads(&mut self, out: &mut Self::Buf, x: &Self::Buf, w: &Self::Weight, heads: usize) { self.$base.matmul_heads(out, x, $weight(w), heads) }
    };
    (@conv $base:tt, $weight:path) => {
        fn conv(&mut self, out: &mut Self::Buf, kv: &mut Self::Kv, place: (usize, usize), x: &Self::Buf, w: &Self::Weight, step: &$crate::Step) { self.$base.conv(out, kv, place, x, $weight(w), step) }
    };
    (@recur $base:tt, $weight:path) => {
        fn recur(&mut self, out: &mut Self::Buf, kv: &mut Self::Kv, place: (usize, usize), inputs: $crate::Recurrence<'_, Self::Weight, Self::Buf>, step: &$crate::Step) { self.$base.recur(out, kv, place, inputs.map($weight, |x| x), step) }
    };
    (@route $base:tt, $weight:path) => {
        fn route(&mut self, routes: &mut Self::Routes, logits: &Self::Buf, bias: Option<&Self::Weight>, router: $crate::Router) { self.$base.route(routes, logits, bias.map($weight), router) }
    };
    (@choices $base:tt, $weight:path) => {
        fn choices(&mut self, routes: &Self::Routes) -> Self::Snapshot { self.$base.choices(routes) }
    };
    (@chosen $base:tt, $weight:path) => {
        fn chosen(&mut self, choices: &Self::Snapshot, out: &mut Vec<(u32, f32)>) { self.$base.chosen(choices, out) }
    };
    (@matmul_experts $base:tt, $weight:path) => {
        fn matmul_experts(&mut self, out: &mut Self::Buf, x: &Self::Buf, w: &Self::Weight, routes: &Self::Routes) { self.$base.matmul_experts(out, x, $weight(w), routes) }
    };
    (@add_bias_experts $base:tt, $weight:path) => {
        fn add_bias_experts(&mut self, x: &mut Self::Buf, bias: &Self::Weight, routes: &Self::Routes) { self.$base.add_bias_experts(x, $weight(bias), routes) }
    };
    (@scale_experts $base:tt, $weight:path) => {
        fn scale_experts(&mut self, x: &mut Self::Buf, routes: &Self::Routes) { self.$base.scale_experts(x, routes) }
    };
    (@sum_experts $base:tt, $weight:path) => {
        fn sum_experts(&mut self, out: &mut Self::Buf, x: &Self::Buf, routes: &Self::Routes) { self.$base.sum_experts(out, x, routes) }
    };
    (@recycle_weights $base:tt, $weight:path) => {
        fn recycle_weights(&mut self) { self.$base.recycle_weights() }
    };
    (@upload $base:tt, $weight:path) => {
        fn upload(&mut self, x: &mut Self::Buf, values: &[f32], step: &$crate::Step) { self.$base.upload(x, values, step) }
    };
    (@snapshot $base:tt, $weight:path) => {
        fn snapshot(&mut self, x: &Self::Buf) -> Self::Snapshot { self.$base.snapshot(x) }
    };
    (@elements $base:tt, $weight:path) => {
        fn elements(&self, snapshot: &Self::Snapshot) -> usize { self.$base.elements(snapshot) }
    };
    (@poll_read $base:tt, $weight:path) => {
        fn poll_read(&mut self, snapshot: &mut Self::Snapshot, cx: &mut std::task::Context<'_>) -> std::task::Poll<()> { self.$base.poll_read(snapshot, cx) }
    };
    (@download $base:tt, $weight:path) => {
        fn download(&mut self, snapshot: &Self::Snapshot, out: &mut Vec<f32>) { self.$base.download(snapshot, out) }
    };
    (@stored $base:tt, $weight:path) => {
        fn stored<'a>(&mut self, kv: &'a mut Self::Kv) -> Option<&'a mut dyn $crate::Stored> { self.$base.stored(kv) }
    };
    (@stop_at $base:tt, $weight:path) => {
        fn stop_at(&mut self, stop: Option<$crate::Stop>) { self.$base.stop_at(stop) }
    };
    (@finish $base:tt, $weight:path) => {
        fn finish(&mut self) -> Result<(), $crate::Error> { self.$base.finish() }
    };
    ($base:tt, $weight:path: $($name:ident)*) => {
        $($crate::forward!(@$name $base, $weight);)*
    };
}
