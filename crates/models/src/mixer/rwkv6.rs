//! RWKV-6's time mixing (Peng et al. 2024, Eagle and Finch).

use candor_ops::{Columns, Decay, LayerCache, Norm, NormKind, Ops, Recurrence, Tap, Unary};

use crate::{
    Error,
    arch::Architecture,
    at::At,
    common::Common,
    keys::Keys,
    linear::{Linear, Out},
    norm::Normed,
    token_shift::Shift,
    weights::Weights,
};

/// Added to the variance of a head's result: a constant of the authors' program.
pub(crate) const HEAD_EPS: f32 = 64e-5;
/// Mixed inputs, in the order of `time_mix_lerp_fused`: of the decay, keys, values, receptance and gate.
const MIXES: usize = 5;

/// The dimensions of a time mixing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Dims {
    dim: usize,
    /// Width of a head.
    head: usize,
    /// Width of what each mix, and the decay, is made from.
    mix_rank: usize,
    decay_rank: usize,
}

/// The weights of a time mixing.
pub(crate) struct Layer<B: Ops> {
    dims: Dims,
    shift: Shift<B>,
    first_mix: B::Weight,    // [D]
    w1: B::Weight,           // [5*mix_rank, D]
    w2: B::Weight,           // [5][D, mix_rank]
    mixes: B::Weight,        // [5*D]
    decay: B::Weight,        // [D]
    decay_w1: B::Weight,     // [decay_rank, D]
    decay_w2: B::Weight,     // [D, decay_rank]
    bonus: B::Weight,        // [D]
    receptance: Linear<B>,   // [D, D]
    key: Linear<B>,          // [D, D]
    value: Linear<B>,        // [D, D]
    gate: Linear<B>,         // [D, D]
    norm: Option<Normed<B>>, // [D], each head by itself
    output: Linear<B>,       // [D, D]
}

/// The values in flight.
pub(crate) struct Scratch<B: Ops> {
    difference: B::Buf, // [T, D]
    room: B::Buf,       // [T, D]
    low: B::Buf,        // [T, 5*mix_rank]
    mixes: B::Buf,      // [T, 5*D]
    mix: B::Buf,        // [T, D]
    decay_low: B::Buf,  // [T, decay_rank]
    decay: B::Buf,      // [T, D]
    r: B::Buf,          // [T, D]
    k: B::Buf,          // [T, D]
    v: B::Buf,          // [T, D]
    g: B::Buf,          // [T, D]
    y: B::Buf,          // [T, D]
}

impl<B: Ops> Scratch<B> {
    pub(crate) fn new(bufs: [B::Buf; 12]) -> Self {
        let [difference, room, low, mixes, mix, decay_low, decay, r, k, v, g, y] = bufs;
        Scratch { difference, room, low, mixes, mix, decay_low, decay, r, k, v, g, y }
    }
}

impl Dims {
    pub(crate) fn of(keys: &Keys<'_>, common: &Common, i: usize) -> Result<Option<Dims>, Error> {
        if keys.gguf.tensor(&format!("blk.{i}.time_mix_first.weight")).is_none() {
            return Ok(None);
        }
        const HEAD: &str = "wkv.head_size";
        let (dim, head) = (common.dim, keys.positive(HEAD)?);
        if !dim.is_multiple_of(head) {
            return Err(keys.bad(HEAD, &format!("a divisor of {dim}"), head));
        }
        let (mix_rank, decay_rank) = (keys.positive("time_mix_extra_dim")?, keys.positive("time_decay_extra_dim")?);
        Ok(Some(Dims { dim, head, mix_rank, decay_rank }))
    }

    pub(crate) fn keep(&self, cache: &mut LayerCache) {
        cache.states[0] = self.dim;
        cache.states[1] = self.dim * self.head;
    }

    pub(crate) fn widths(&self) -> [usize; 12] {
        let Dims { dim, mix_rank, decay_rank, .. } = *self;
        [dim, dim, MIXES * mix_rank, MIXES * dim, dim, decay_rank, dim, dim, dim, dim, dim, dim]
    }
}

impl<B: Ops> Layer<B> {
    pub(crate) fn load(
        w: &mut Weights<'_, B>,
        _: &Architecture,
        _: &Common,
        dims: Dims,
        i: usize,
    ) -> Result<Layer<B>, Error> {
        let name = |rest: &str| format!("blk.{i}.time_mix_{rest}");
        let weight = |rest: &str| format!("blk.{i}.time_mix_{rest}.weight");
        let Dims { dim, head, mix_rank, decay_rank } = dims;
        let norm = Norm { kind: NormKind::Layer, run: head, eps: HEAD_EPS };
        Ok(Layer {
            dims,
            shift: Shift::load(w, dim)?,
            first_mix: w.spread(&weight("lerp_x"), dim)?,
            w1: w.matrix(&weight("w1"), dim, MIXES * mix_rank)?,
            w2: w.stacked(&weight("w2"), mix_rank, MIXES * dim)?,
            mixes: w.spread(&weight("lerp_fused"), MIXES * dim)?,
            decay: w.spread(&weight("decay"), dim)?,
            decay_w1: w.matrix(&weight("decay_w1"), dim, decay_rank)?,
            decay_w2: w.matrix(&weight("decay_w2"), decay_rank, dim)?,
            bonus: w.spread(&weight("first"), dim)?,
            receptance: Linear::load(w, &name("receptance"), dim, dim)?,
            key: Linear::load(w, &name("key"), dim, dim)?,
            value: Linear::load(w, &name("value"), dim, dim)?,
            gate: Linear::load(w, &name("gate"), dim, dim)?,
            norm: Normed::of_runs(w, &name("ln"), norm, dim)?,
            output: Linear::load(w, &name("output"), dim, dim)?,
        })
    }

    pub(crate) fn run<P: Tap<B>>(&self, at: &mut At<'_, '_, B, P>, s: &mut Scratch<B>, h: &B::Buf, out: Out<'_, B>) {
        let Dims { dim, head, .. } = self.dims;
        let ops = &mut *at.ops;
        self.shift.difference(ops, (&mut s.difference, &mut s.room), h, (at.kv, (at.cached, 0)), at.step);
        self.shift.mix(ops, &mut s.mix, h, &s.difference, &self.first_mix);
        ops.matmul(&mut s.low, &s.mix, &self.w1);
        ops.unary(&mut s.low, Unary::Tanh);
        ops.matmul_heads(&mut s.mixes, &s.low, &self.w2, MIXES);
        ops.add_bias(&mut s.mixes, &self.mixes);
        let products = [(1, &self.key, &mut s.k), (2, &self.value, &mut s.v), (3, &self.receptance, &mut s.r)];
        let products = products.into_iter().chain([(4, &self.gate, &mut s.g)]);
        // x + difference * mix
        let mixed = |ops: &mut B, mix: &mut B::Buf, n: usize, mixes: &B::Buf, difference: &B::Buf| {
            ops.copy(mix, mixes, Columns::run(dim, n * dim, 0));
            ops.mul(mix, difference);
            ops.add(mix, h);
        };
        for (n, linear, x) in products {
            mixed(ops, &mut s.mix, n, &s.mixes, &s.difference);
            linear.apply(ops, x, &s.mix);
        }
        ops.unary(&mut s.g, Unary::Silu);
        mixed(ops, &mut s.mix, 0, &s.mixes, &s.difference);
        ops.matmul(&mut s.decay_low, &s.mix, &self.decay_w1);
        ops.unary(&mut s.decay_low, Unary::Tanh);
        ops.matmul(&mut s.decay, &s.decay_low, &self.decay_w2);
        ops.add_bias(&mut s.decay, &self.decay);
        for f in [Unary::Exp, Unary::scale(-1.0), Unary::Exp] {
            ops.unary(&mut s.decay, f);
        }
        let heads = dim / head;
        let recurrence = Recurrence {
            heads,
            key_heads: heads,
            key_dim: head,
            value_dim: head,
            q: &s.r,
            k: &s.k,
            v: &s.v,
            decay: Decay::Keys(&s.decay),
            erase: None,
            bonus: Some(&self.bonus),
        };
        ops.recur(&mut s.y, at.kv, (at.cached, 1), recurrence, at.step);
        if let Some(norm) = &self.norm {
            norm.within(ops, &mut s.y);
        }
        ops.mul(&mut s.y, &s.g);
        at.tap("wkv_y", &s.y);
        self.output.leave(at.ops, &s.y, out);
    }
}
