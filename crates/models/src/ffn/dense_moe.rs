//! A dense feed-forward and a mixture of experts beside each other, each with norms of its own; experts are chosen by the stream as
//! it is before any of these (Gemma Team 2026, Gemma 4).

use candor_ops::{Norm, Ops, Tap, Unary};

use super::{dense, experts};
use crate::{Error, arch::Architecture, at::At, common::Common, linear::Out, norm::Normed, weights::Weights};

/// The dimensions of both.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Dims {
    pub(crate) dense: dense::Dims,
    pub(crate) experts: experts::Dims,
}

/// The weights of both.
pub(crate) struct Layer<B: Ops> {
    dense: dense::Layer<B>,
    dense_norm: Normed<B>, // [D], of the dense one's result
    experts: experts::Layer<B>,
    choice_norm: Normed<B>,        // [D], of what experts are chosen by
    experts_norms: [Normed<B>; 2], // [D], of what goes into them, and of their result
}

/// The values in flight.
pub(crate) struct Scratch<B: Ops> {
    dense: dense::Scratch<B>,
    experts: experts::Scratch<B>,
    h: B::Buf, // [T, D]
}

impl Dims {
    pub(crate) fn scratch<B: Ops>(&self, ops: &mut B, dim: usize, rows: usize) -> Scratch<B> {
        Scratch {
            dense: self.dense.scratch(ops, rows),
            experts: self.experts.scratch(ops, dim, rows),
            h: ops.buffer(rows, dim),
        }
    }
}

impl<B: Ops> Layer<B> {
    pub(crate) fn load(
        w: &mut Weights<'_, B>,
        arch: &Architecture,
        dims: Dims,
        (common, i): (&Common, usize),
        activation: (Unary, bool),
    ) -> Result<Layer<B>, Error> {
        let name = |rest: &str| common.name(i, rest);
        let norm = Norm { kind: arch.norm, run: common.dim, eps: common.eps };
        let mut normed = |part: &str| Normed::load(w, &name(part), norm);
        let dense_norm = normed("post_ffw_norm_1")?;
        let experts_norms = [normed("pre_ffw_norm_2")?, normed("post_ffw_norm_2")?];
        let choice_norm = Normed::weighed(norm, w.vector(&name("ffn_gate_inp.scale"), common.dim)?);
        let dense =
            dense::Layer::load(w, &["ffn_gate", "ffn_up", "ffn_down"].map(name), dims.dense, common.dim, activation)?;
        let experts = experts::Layer::load(w, name, dims.experts, common, activation)?;
        Ok(Layer { dense, dense_norm, experts, choice_norm, experts_norms })
    }

    /// `norm(dense(h)) + norm(experts(norm(x)))`, the experts chosen by `norm(x) / sqrt(D)`.
    pub(crate) fn run<P: Tap<B>>(&self, at: &mut At<'_, '_, B, P>, s: &mut Scratch<B>, h: &B::Buf, out: Out<'_, B>) {
        let dim = at.common.dim;
        self.dense.to(at, &mut s.dense, h, out.y);
        self.dense_norm.within(at.ops, out.y);
        at.tap("ffn_mlp", out.y);
        self.choice_norm.to(at.ops, &mut s.h, out.x, dim);
        at.ops.unary(&mut s.h, Unary::scale(1.0 / (dim as f32).sqrt()));
        self.experts.choose(at, &mut s.experts, &s.h);
        let [before, after] = &self.experts_norms;
        before.to(at.ops, &mut s.h, out.x, dim);
        at.tap("ffn_norm_2", &s.h);
        self.experts.answer(at, &mut s.experts, &s.h);
        after.within(at.ops, &mut s.experts.sum);
        at.tap("ffn_moe", &s.experts.sum);
        at.ops.add(out.y, &s.experts.sum);
        at.tap("ffn_moe_combined", out.y);
        out.add(at.ops);
    }
}
