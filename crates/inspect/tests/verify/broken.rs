//! A backend that runs another, and does one operation wrong.

use candor_ops::{Attention, Columns, Heads, Mask, Norm, NormKind, Ops, Prims, Recurrence, Router, Step, Unary};
use candor_testing::backend::floats;

/// A backend of which one operation is wrong.
#[derive(Clone)]
pub(crate) struct Broken<B> {
    pub(crate) right: B,
    pub(crate) fault: &'static str,
}

impl<B: Prims> Broken<B> {
    /// Changes a result of the operation that is to be wrong.
    fn spoil(&mut self, operation: &str, x: &mut B::Buf) {
        if operation == self.fault {
            self.right.unary(x, Unary::Silu);
        }
    }

    /// The step's positions; none but the first where states are to be forgotten between steps.
    fn forgetting(&self, fault: &str, step: &Step) -> Vec<u32> {
        let first = if self.fault == fault { step.positions[0] } else { 0 };
        step.positions.iter().map(|position| position - first).collect()
    }
}

impl<B: Prims> Prims for Broken<B> {
    type Weight = B::Weight;
    type Buf = B::Buf;
    type Kv = B::Kv;
    type Rope = B::Rope;
    type Snapshot = B::Snapshot;
    type Routes = B::Routes;

    const WITHOUT: &'static [&'static str] = B::WITHOUT;

    candor_ops::forward! { right, std::convert::identity:
        weight buffer check_kv kv rope_table routes choices chosen upload snapshot elements poll_read download
        stored finish
    }

    fn embed(&mut self, out: &mut B::Buf, table: &B::Weight, step: &Step) {
        if self.fault == "embed, next token" {
            let tokens: Vec<u32> = step.tokens.iter().map(|token| token + 1).collect();
            return self.right.embed(out, table, &Step { tokens: &tokens, ..*step });
        }
        self.right.embed(out, table, step);
        self.spoil("embed", out);
    }
    fn rms_norm(&mut self, out: &mut B::Buf, x: &B::Buf, w: &B::Weight, eps: f32) {
        let eps = if self.fault == "rms_norm, eps" { eps + 1e-4 } else { eps };
        self.right.rms_norm(out, x, w, eps);
        self.spoil("rms_norm", out);
    }
    fn norm(&mut self, x: &mut B::Buf, norm: Norm, weight: Option<&B::Weight>, bias: Option<&B::Weight>) {
        self.right.norm(x, norm, weight, bias);
        let of_heads = norm.kind == NormKind::Rms && weight.is_some() && bias.is_none();
        self.spoil(if of_heads { "head_norm" } else { "norm" }, x);
    }
    fn matmul(&mut self, out: &mut B::Buf, x: &B::Buf, w: &B::Weight) {
        self.right.matmul(out, x, w);
        self.spoil("matmul", out);
    }
    fn matmul_rows(&mut self, out: &mut B::Buf, x: &B::Buf, w: &B::Weight, step: &Step) {
        if self.fault == "matmul_rows, first row" {
            let outputs = vec![0; step.outputs.len()];
            return self.right.matmul_rows(out, x, w, &Step { outputs: &outputs, ..*step });
        }
        self.right.matmul_rows(out, x, w, step);
        self.spoil("matmul_rows", out);
    }
    fn add_bias(&mut self, x: &mut B::Buf, bias: &B::Weight) {
        if self.fault != "add_bias, left out" {
            self.right.add_bias(x, bias);
        }
        self.spoil("add_bias", x);
    }
    fn rope(&mut self, x: &mut B::Buf, rope: &B::Rope, head_dim: usize, step: &Step) {
        let first = step.positions[0];
        let moved = |&position: &u32| match self.fault {
            "rope, position 0" => 0,
            "rope, restarts" => position - first,
            _ => position,
        };
        let positions: Vec<u32> = step.positions.iter().map(moved).collect();
        self.right.rope(x, rope, head_dim, &Step { positions: &positions, ..*step });
        self.spoil("rope", x);
    }
    fn kv_write(&mut self, kv: &mut B::Kv, layer: usize, k: &B::Buf, v: &B::Buf, step: &Step) {
        let moved = |&position: &u32| if self.fault == "kv_write, slot" { position / 2 } else { position };
        let positions: Vec<u32> = step.positions.iter().map(moved).collect();
        self.right.kv_write(kv, layer, k, v, &Step { positions: &positions, ..*step });
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
        let factor = if self.fault == "attend, scale" { 1.1 } else { 1.0 };
        let heads = Heads { scale: attention.heads.scale * factor, ..attention.heads };
        let mut attention = Attention { heads, ..attention };
        match self.fault {
            "attend, mask" => attention.mask = Mask::Causal,
            "attend, window" => {
                if let Mask::Window(window) = attention.mask {
                    attention.mask = Mask::Window(window + 1);
                }
            }
            "attend, soft cap" => attention.soft_cap = None,
            "attend, alibi" => attention.alibi = None,
            "attend, sinks" => attention.sinks = None,
            "attend, relative" => attention.relative = None,
            _ => {}
        }
        self.right.attend(out, q, kv, layer, attention, step);
        self.spoil("attend", out);
    }
    fn unary(&mut self, x: &mut B::Buf, f: Unary) {
        self.right.unary(x, f);
        self.spoil(if f == Unary::Silu { "silu" } else { "unary" }, x);
    }
    fn copy(&mut self, out: &mut B::Buf, x: &B::Buf, columns: Columns) {
        let from = if self.fault == "copy, columns" { (0, columns.from.1) } else { columns.from };
        self.right.copy(out, x, Columns { from, ..columns });
        self.spoil("copy", out);
    }
    fn add_positions(&mut self, x: &mut B::Buf, table: &B::Weight, step: &Step) {
        let first = if self.fault == "add_positions, restarts" { step.positions[0] } else { 0 };
        let positions: Vec<u32> = step.positions.iter().map(|position| position - first).collect();
        self.right.add_positions(x, table, &Step { positions: &positions, ..*step });
        self.spoil("add_positions", x);
    }
    fn mul_columns(&mut self, x: &mut B::Buf, w: &B::Weight) {
        self.right.mul_columns(x, w);
        self.spoil("mul_columns", x);
    }
    fn mul_groups(&mut self, x: &mut B::Buf, y: &B::Buf) {
        self.right.mul_groups(x, y);
        self.spoil("mul_groups", x);
    }
    fn dot_groups(&mut self, out: &mut B::Buf, x: &B::Buf, y: &B::Buf) {
        self.right.dot_groups(out, x, y);
        self.spoil("dot_groups", out);
    }
    fn matmul_heads(&mut self, out: &mut B::Buf, x: &B::Buf, w: &B::Weight, heads: usize) {
        self.right.matmul_heads(out, x, w, heads);
        self.spoil("matmul_heads", out);
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
        let positions = self.forgetting("conv, forgets", step);
        self.right.conv(out, kv, place, x, w, &Step { positions: &positions, ..*step });
        self.spoil("conv", out);
    }
    fn recur(
        &mut self,
        out: &mut B::Buf,
        kv: &mut B::Kv,
        place: (usize, usize),
        inputs: Recurrence<'_, B::Weight, B::Buf>,
        step: &Step,
    ) {
        let positions = self.forgetting("recur, forgets", step);
        let (erase, bonus) = match self.fault {
            "recur, erase" => (None, inputs.bonus),
            "recur, bonus" => (inputs.erase, None),
            _ => (inputs.erase, inputs.bonus),
        };
        self.right.recur(
            out,
            kv,
            place,
            Recurrence { erase, bonus, ..inputs },
            &Step { positions: &positions, ..*step },
        );
        self.spoil("recur", out);
    }
    fn route(&mut self, routes: &mut B::Routes, logits: &B::Buf, bias: Option<&B::Weight>, router: Router) {
        match self.fault {
            "route, scale" => self.right.route(routes, logits, bias, Router { scale: router.scale * 1.1, ..router }),
            "route, bias" => self.right.route(routes, logits, None, router),
            "route, groups" => self.right.route(routes, logits, bias, Router { groups: (1, 1), ..router }),
            "route, normalized" => {
                self.right.route(routes, logits, bias, Router { normalized: !router.normalized, ..router });
            }
            "route, third" => {
                let favour: Vec<f32> = (0..router.experts).map(|i| if i == 2 { 1.0 } else { 0.0 }).collect();
                let favour = self.right.weight(floats(1, router.experts, &favour)).unwrap();
                self.right.route(routes, logits, Some(&favour), router);
            }
            _ => self.right.route(routes, logits, bias, router),
        }
    }
    fn matmul_experts(&mut self, out: &mut B::Buf, x: &B::Buf, w: &B::Weight, routes: &B::Routes) {
        self.right.matmul_experts(out, x, w, routes);
        self.spoil("matmul_experts", out);
    }
    fn add_bias_experts(&mut self, x: &mut B::Buf, bias: &B::Weight, routes: &B::Routes) {
        self.right.add_bias_experts(x, bias, routes);
        self.spoil("add_bias_experts", x);
    }
    fn scale_experts(&mut self, x: &mut B::Buf, routes: &B::Routes) {
        self.right.scale_experts(x, routes);
        self.spoil("scale_experts", x);
    }
    fn sum_experts(&mut self, out: &mut B::Buf, x: &B::Buf, routes: &B::Routes) {
        self.right.sum_experts(out, x, routes);
        self.spoil("sum_experts", out);
    }
    fn mul(&mut self, x: &mut B::Buf, y: &B::Buf) {
        self.right.mul(x, y);
        self.spoil("mul", x);
    }
    fn add(&mut self, x: &mut B::Buf, y: &B::Buf) {
        self.right.add(x, y);
        self.spoil("add", x);
    }
}

impl<B: Ops> Ops for Broken<B> {
    fn swiglu(&mut self, gate: &mut B::Buf, up: &B::Buf) {
        self.right.swiglu(gate, up);
        self.spoil("swiglu", gate);
    }
    fn matmul_add(&mut self, x: &mut B::Buf, h: &B::Buf, w: &B::Weight, product: &mut B::Buf) {
        if self.fault == "matmul_add, not added" {
            return self.right.matmul(x, h, w);
        }
        self.right.matmul_add(x, h, w, product);
        self.spoil("matmul_add", x);
    }
    fn matmul2(&mut self, a: (&mut B::Buf, &B::Weight), b: (&mut B::Buf, &B::Weight), x: &B::Buf) {
        if self.fault == "matmul2, swapped" {
            return self.right.matmul2((a.0, b.1), (b.0, a.1), x);
        }
        self.right.matmul2((&mut *a.0, a.1), b, x);
        self.spoil("matmul2", a.0);
    }
    fn matmul3(
        &mut self,
        a: (&mut B::Buf, &B::Weight),
        b: (&mut B::Buf, &B::Weight),
        c: (&mut B::Buf, &B::Weight),
        x: &B::Buf,
    ) {
        self.right.matmul3(a, b, (&mut *c.0, c.1), x);
        self.spoil("matmul3", c.0);
    }
}
