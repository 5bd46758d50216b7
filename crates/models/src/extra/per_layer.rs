//! Embeddings per layer: each token has a short vector for every layer, which its stream gates (Gemma Team 2025,
//! Gemma 3n).

use std::f32::consts::FRAC_1_SQRT_2;

use candor_ops::{Columns, Heads, Norm, NormKind, Ops, Step, Tap, Unary};

use super::hooks::Extra;
use crate::{
    Error,
    arch::Architecture,
    at::{At, Stream},
    common::Common,
    keys::Keys,
    linear::Linear,
    norm::Normed,
    weights::Weights,
};

/// Width of the short vectors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Dims(usize);

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

/// How many residual streams there are, where they are several. They have the embeddings per layer then ([`super::altup`]).
pub(super) fn streams(keys: &Keys<'_>) -> Result<Option<usize>, Error> {
    Ok(keys.number("altup.num_inputs")?.filter(|&count| count > 1))
}

impl Dims {
    /// What the metadata says.
    pub(super) fn said(keys: &Keys<'_>) -> Result<Option<Dims>, Error> {
        Ok(keys.number("embedding_length_per_layer_input")?.filter(|&width| width != 0).map(Dims))
    }
}

impl Extra for Dims {
    type Ends<B: Ops> = Inputs<B>;
    type Layer<B: Ops> = Layer<B>;
    type Scratch<B: Ops> = Scratch<B>;

    const CROSSES: bool = true;

    fn of(keys: &Keys<'_>, _: &Common, _: &Heads) -> Result<Option<Dims>, Error> {
        if streams(keys)?.is_some() { Ok(None) } else { Dims::said(keys) }
    }

    fn scratch<B: Ops>(&self, ops: &mut B, common: &Common, rows: usize) -> Scratch<B> {
        let (all, width) = (common.layers * self.0, self.0);
        let [all, looked, own, gate] = [all, all, width, width].map(|width| ops.buffer(rows, width));
        Scratch { all, looked, own, gate }
    }

    fn ends<B: Ops>(&self, w: &mut Weights<'_, B>, common: &Common) -> Result<Inputs<B>, Error> {
        let all = common.layers * self.0;
        let norm = Norm { kind: NormKind::Rms, run: self.0, eps: common.eps };
        Ok(Inputs {
            width: self.0,
            table: w.matrix("per_layer_token_embd.weight", all, common.vocab)?,
            projection: Linear::load(w, "per_layer_model_proj", common.dim, all)?,
            norm: Normed::load(w, "per_layer_proj_norm", norm)?,
        })
    }

    fn layer<B: Ops>(
        &self,
        w: &mut Weights<'_, B>,
        _: &Architecture,
        common: &Common,
        i: usize,
    ) -> Result<Layer<B>, Error> {
        let name = |rest: &str| common.name(i, rest);
        let norm = Norm { kind: NormKind::Rms, run: common.dim, eps: common.eps };
        Ok(Layer {
            width: self.0,
            gate: Linear::load(w, &name("inp_gate"), common.dim, self.0)?,
            output: Linear::load(w, &name("proj"), self.0, common.dim)?,
            norm: Normed::load(w, &name("post_norm"), norm)?,
        })
    }

    fn embedded<B: Ops>(
        inputs: &Inputs<B>,
        ops: &mut B,
        s: &mut Scratch<B>,
        x: &mut B::Buf,
        (step, common): (&Step, &Common),
    ) {
        inputs.make(ops, s, x, (step, common));
    }

    /// `x += norm((gelu(x @ gate) * own) @ w)`
    fn after<B: Ops, P: Tap<B>>(
        layer: &Layer<B>,
        at: &mut At<'_, '_, B, P>,
        s: &mut Scratch<B>,
        Stream { x, y, .. }: Stream<'_, B>,
    ) {
        layer.make(at, s, x, y);
        at.ops.add(x, y);
        at.tap("per_layer_embd_out", x);
    }
}

impl<B: Ops> Inputs<B> {
    /// `(norm(x @ w / sqrt(D)) + table[token] * sqrt(P)) / sqrt(2)`
    pub(super) fn make(&self, ops: &mut B, s: &mut Scratch<B>, x: &B::Buf, (step, common): (&Step, &Common)) {
        ops.embed(&mut s.looked, &self.table, step);
        ops.unary(&mut s.looked, Unary::scale((self.width as f32).sqrt()));
        self.projection.apply(ops, &mut s.all, x);
        ops.unary(&mut s.all, Unary::scale(1.0 / (common.dim as f32).sqrt()));
        self.norm.within(ops, &mut s.all);
        ops.add(&mut s.all, &s.looked);
        ops.unary(&mut s.all, Unary::scale(FRAC_1_SQRT_2));
    }
}

impl<B: Ops> Layer<B> {
    /// What is added, in `y`.
    pub(super) fn make<P: Tap<B>>(&self, at: &mut At<'_, '_, B, P>, s: &mut Scratch<B>, x: &B::Buf, y: &mut B::Buf) {
        let ops = &mut *at.ops;
        self.gate.apply(ops, &mut s.gate, x);
        ops.unary(&mut s.gate, Unary::Gelu);
        ops.copy(&mut s.own, &s.all, Columns::run(self.width, at.layer * self.width, 0));
        ops.mul(&mut s.gate, &s.own);
        self.output.apply(ops, y, &s.gate);
        self.norm.within(ops, y);
    }
}
