//! Every fusion on the backend that is watched, held against the formulas of what its default body says; and the best of a row.

use candor_ops::{Ops, Ranked, Step, Unary};

use crate::{
    checked::{Checked, How, RANKED, RELATIVE},
    formulas::{self, CHAIN},
    ledger::Place,
};

impl<B: Ops> Ops for Checked<B> {
    fn swiglu(&mut self, gate: &mut Self::Buf, up: &Self::Buf) {
        let (before, by) = (self.read(gate), self.read(up));
        self.inner.swiglu(&mut gate.inner, &up.inner);
        let got = self.read(gate);
        let expected = before.iter().zip(&by);
        let expected = expected.map(|(&x, &y)| formulas::relative(Unary::Silu.at(x.into()) * f64::from(y), CHAIN));
        self.compare(("swiglu", RELATIVE), self.here(), gate.width, &got, expected);
    }

    fn matmul_add(&mut self, x: &mut Self::Buf, h: &Self::Buf, w: &Self::Weight, product: &mut Self::Buf) {
        let (before, input) = (self.read(x), self.read(h));
        self.inner.matmul_add(&mut x.inner, &h.inner, &w.inner, &mut product.inner);
        let got = self.read(x);
        self.compare_product("matmul_add", &input, &w.tensor, Some(&before), &got);
    }

    fn matmul2(&mut self, a: (&mut Self::Buf, &Self::Weight), b: (&mut Self::Buf, &Self::Weight), x: &Self::Buf) {
        let before = self.read(x);
        self.inner.matmul2((&mut a.0.inner, &a.1.inner), (&mut b.0.inner, &b.1.inner), &x.inner);
        for (out, w) in [a, b] {
            let got = self.read(out);
            self.compare_product("matmul2", &before, &w.tensor, None, &got);
        }
    }

    fn matmul3(
        &mut self,
        a: (&mut Self::Buf, &Self::Weight),
        b: (&mut Self::Buf, &Self::Weight),
        c: (&mut Self::Buf, &Self::Weight),
        x: &Self::Buf,
    ) {
        let before = self.read(x);
        let [q, k, v] = [&mut a.0.inner, &mut b.0.inner, &mut c.0.inner];
        self.inner.matmul3((q, &a.1.inner), (k, &b.1.inner), (v, &c.1.inner), &x.inner);
        for (out, w) in [a, b, c] {
            let got = self.read(out);
            self.compare_product("matmul3", &before, &w.tensor, None, &got);
        }
    }

    /// What is wrong is said of the part that it is wrong in.
    fn rope_write(
        &mut self,
        kv: &mut Self::Kv,
        layer: usize,
        [q, k, v]: [&mut Self::Buf; 3],
        (rope, head_dim): (&Self::Rope, usize),
        step: &Step,
    ) {
        self.layer = self.layer.or(Some(layer));
        let (queries, before, values) = (self.read(q), self.read(k), self.read(v));
        let rows = [&mut q.inner, &mut k.inner, &mut v.inner];
        self.inner.rope_write(&mut kv.inner, layer, rows, (&rope.inner, head_dim), step);
        self.compare_turned(q, &queries, (&rope.rope, head_dim), step);
        self.compare_turned(k, &before, (&rope.rope, head_dim), step);
        let keys = self.read(k);
        kv.keep(layer, (&keys, k.width), (&values, v.width), step);
    }

    const TOP_K: usize = B::TOP_K;

    fn top_k(&mut self, x: &Self::Buf, width: usize, k: usize) -> B::Snapshot {
        let rows = self.read(x);
        let best = self.inner.top_k(&x.inner, width, k);
        let got = self.take(How::Best { width, k }, |inner| inner.top_k(&x.inner, width, k));
        let expected = rows.chunks_exact(width).flat_map(|row| formulas::best(row, k));
        let place = Place { layer: None, ..self.here() };
        self.compare(("top_k", RANKED), place, 2 * k.min(width), &got, expected);
        best
    }

    fn ranked(&mut self, best: &B::Snapshot, width: usize, k: usize, out: &mut Vec<Ranked>) {
        self.inner.ranked(best, width, k, out);
    }
}
