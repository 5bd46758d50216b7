//! Embeddings per layer: each token has a short vector for every layer, which its stream gates (Gemma Team 2025,
//! Gemma 3n).

use std::f32::consts::FRAC_1_SQRT_2;

use candor_ops::{Columns, Norm, NormKind, Ops, Step, Tap, Unary};

use crate::{Error, config::Config, linear::Linear, mixer::At, norm::Normed, weights::Weights};

/// What makes the short vectors.
pub(crate) struct Inputs<B: Ops> {
    width: usize,
    table: B::Weight,      // [V, L*P]
    projection: Linear<B>, // [L*P, D]
    norm: Normed<B>,       // [P]
}

/// What a layer does with its own.
pub(crate) struct Layer<B: Ops> {
    width: usize,
    gate: Linear<B>,   // [P, D]
    output: Linear<B>, // [D, P]
    norm: Normed<B>,   // [D]
}

/// The values in flight.
pub(crate) struct Scratch<B: Ops> {
    all: B::Buf,    // [T, L*P]
    looked: B::Buf, // [T, L*P]
    own: B::Buf,    // [T, P]
    gate: B::Buf,   // [T, P]
}

impl<B: Ops> Scratch<B> {
    pub(crate) fn new(ops: &mut B, rows: usize, layers: usize, width: usize) -> Scratch<B> {
        let [all, looked, own, gate] =
            [layers * width, layers * width, width, width].map(|width| ops.buffer(rows, width));
        Scratch { all, looked, own, gate }
    }
}

impl<B: Ops> Inputs<B> {
    pub(crate) fn load(w: &mut Weights<'_, B>, config: &Config, width: usize) -> Result<Inputs<B>, Error> {
        let all = config.layers * width;
        let norm = Norm { kind: NormKind::Rms, run: width, eps: config.eps };
        Ok(Inputs {
            width,
            table: w.matrix("per_layer_token_embd.weight", all, config.vocab)?,
            projection: Linear::load(w, "per_layer_model_proj", config.dim, all)?,
            norm: Normed::load(w, "per_layer_proj_norm", norm)?,
        })
    }

    /// `(norm(x @ w / sqrt(D)) + table[token] * sqrt(P)) / sqrt(2)`
    pub(crate) fn make(&self, ops: &mut B, s: &mut Scratch<B>, x: &B::Buf, (step, config): (&Step, &Config)) {
        ops.embed(&mut s.looked, &self.table, step);
        ops.unary(&mut s.looked, Unary::scale((self.width as f32).sqrt()));
        self.projection.apply(ops, &mut s.all, x);
        ops.unary(&mut s.all, Unary::scale(1.0 / (config.dim as f32).sqrt()));
        self.norm.within(ops, &mut s.all);
        ops.add(&mut s.all, &s.looked);
        ops.unary(&mut s.all, Unary::scale(FRAC_1_SQRT_2));
    }
}

impl<B: Ops> Layer<B> {
    pub(crate) fn load(w: &mut Weights<'_, B>, config: &Config, width: usize, i: usize) -> Result<Layer<B>, Error> {
        let name = |rest: &str| format!("blk.{i}.{rest}");
        let norm = Norm { kind: NormKind::Rms, run: config.dim, eps: config.eps };
        Ok(Layer {
            width,
            gate: Linear::load(w, &name("inp_gate"), config.dim, width)?,
            output: Linear::load(w, &name("proj"), width, config.dim)?,
            norm: Normed::load(w, &name("post_norm"), norm)?,
        })
    }

    /// `x += norm((gelu(x @ gate) * own) @ w)`
    pub(crate) fn run<P: Tap<B>>(&self, at: &mut At<'_, '_, B, P>, s: &mut Scratch<B>, x: &mut B::Buf, y: &mut B::Buf) {
        self.make(at, s, x, y);
        at.ops.add(x, y);
        at.tap("per_layer_embd_out", x);
    }

    /// What is added, in `y`.
    pub(crate) fn make<P: Tap<B>>(&self, at: &mut At<'_, '_, B, P>, s: &mut Scratch<B>, x: &B::Buf, y: &mut B::Buf) {
        let ops = &mut *at.ops;
        self.gate.apply(ops, &mut s.gate, x);
        ops.unary(&mut s.gate, Unary::Gelu);
        ops.copy(&mut s.own, &s.all, Columns::run(self.width, at.layer * self.width, 0));
        ops.mul(&mut s.gate, &s.own);
        self.output.apply(ops, y, &s.gate);
        self.norm.within(ops, y);
    }
}
