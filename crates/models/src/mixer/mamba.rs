//! Mamba (Gu and Dao 2023): a selective state space per channel.

use candor_ops::{Decay, LayerCache, Norm, NormKind, Ops, Recurrence, Tap, Unary};

use crate::{
    Error,
    arch::Architecture,
    at::At,
    common::Common,
    keys::Keys,
    linear::{Linear, Out},
    norm::Normed,
    weights::Weights,
};

/// The dimensions of a Mamba layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Dims {
    /// Channels.
    inner: usize,
    /// Numbers of a channel's state.
    state: usize,
    /// Width of what the time step is made from.
    rank: usize,
    /// Rows that the convolution sees.
    taps: usize,
    /// Whether time step, B and C are normed without weights.
    normed: bool,
}

/// The weights of a Mamba layer.
pub(crate) struct Layer<B: Ops> {
    dims: Dims,
    x: Linear<B>,                  // [inner, D]
    z: Linear<B>,                  // [inner, D]
    conv: Linear<B>,               // [inner, taps]
    time: Linear<B>,               // [rank, inner]
    b: Linear<B>,                  // [state, inner]
    c: Linear<B>,                  // [state, inner]
    norms: [Option<Normed<B>>; 3], // of these three
    step: Linear<B>,               // [inner, rank]
    a: B::Weight,                  // [inner, state], below zero
    d: B::Weight,                  // [inner]
    output: Linear<B>,             // [D, inner]
}

/// The values in flight.
pub(crate) struct Scratch<B: Ops> {
    x: B::Buf,    // [T, inner]
    z: B::Buf,    // [T, inner]
    conv: B::Buf, // [T, inner]
    time: B::Buf, // [T, rank]
    b: B::Buf,    // [T, state]
    c: B::Buf,    // [T, state]
    step: B::Buf, // [T, inner]
    v: B::Buf,    // [T, inner]
    y: B::Buf,    // [T, inner]
}

impl<B: Ops> Scratch<B> {
    pub(crate) fn new([x, z, conv, time, b, c, step, v, y]: [B::Buf; 9]) -> Self {
        Scratch { x, z, conv, time, b, c, step, v, y }
    }
}

impl Dims {
    pub(crate) fn of(keys: &Keys<'_>, _: &Common, i: usize) -> Result<Option<Dims>, Error> {
        if keys.gguf.tensor(&format!("blk.{i}.ssm_x.weight")).is_none() {
            return Ok(None);
        }
        Ok(Some(Dims {
            inner: keys.positive("ssm.inner_size")?,
            state: keys.positive("ssm.state_size")?,
            rank: keys.positive("ssm.time_step_rank")?,
            taps: keys.positive("ssm.conv_kernel")?,
            normed: keys.flag("ssm.dt_b_c_rms")?.unwrap_or(false),
        }))
    }

    pub(crate) fn keep(&self, cache: &mut LayerCache) {
        cache.states = [(self.taps - 1) * self.inner, self.inner * self.state, 0];
    }

    pub(crate) fn widths(&self) -> [usize; 9] {
        let Dims { inner, state, rank, .. } = *self;
        [inner, inner, inner, rank, state, state, inner, inner, inner]
    }
}

impl<B: Ops> Layer<B> {
    pub(crate) fn load(
        w: &mut Weights<'_, B>,
        _: &Architecture,
        common: &Common,
        dims: Dims,
        i: usize,
    ) -> Result<Layer<B>, Error> {
        let name = |rest: &str| format!("blk.{i}.{rest}");
        let Dims { inner, state, rank, taps, normed } = dims;
        let (input, split) = ((common.dim, 2 * inner), (inner, rank + 2 * state));
        let norm = |run| Norm { kind: NormKind::Rms, run, eps: common.eps };
        let mut norms =
            [("ssm_dt_norm", rank), ("ssm_b_norm", state), ("ssm_c_norm", state)].map(|(part, run)| {
                match (normed, w.has(&name(&format!("{part}.weight")))) {
                    (_, true) => Normed::load(w, &name(part), norm(run)).map(Some),
                    (true, false) => Ok(Some(Normed::bare(norm(run)))),
                    (false, false) => Ok(None),
                }
            });
        let mut next = |index: usize| std::mem::replace(&mut norms[index], Ok(None));
        Ok(Layer {
            dims,
            x: Linear::part(w, &name("ssm_in"), input, 0..inner)?,
            z: Linear::part(w, &name("ssm_in"), input, inner..2 * inner)?,
            conv: Linear::load(w, &name("ssm_conv1d"), taps, inner)?,
            time: Linear::part(w, &name("ssm_x"), split, 0..rank)?,
            b: Linear::part(w, &name("ssm_x"), split, rank..rank + state)?,
            c: Linear::part(w, &name("ssm_x"), split, rank + state..rank + 2 * state)?,
            norms: [next(0)?, next(1)?, next(2)?],
            step: Linear::load(w, &name("ssm_dt"), rank, inner)?,
            a: w.matrix(&name("ssm_a"), state, inner)?,
            d: w.vector(&name("ssm_d"), inner)?,
            output: Linear::load(w, &name("ssm_out"), inner, common.dim)?,
        })
    }

    pub(crate) fn run<P: Tap<B>>(&self, at: &mut At<'_, '_, B, P>, s: &mut Scratch<B>, h: &B::Buf, out: Out<'_, B>) {
        let ops = &mut *at.ops;
        ops.matmul2((&mut s.x, &self.x.weight), (&mut s.z, &self.z.weight), h);
        self.x.add_bias(ops, &mut s.x);
        self.z.add_bias(ops, &mut s.z);
        ops.conv(&mut s.conv, at.kv, (at.cached, 0), &s.x, &self.conv.weight, at.step);
        self.conv.add_bias(ops, &mut s.conv);
        ops.unary(&mut s.conv, Unary::Silu);
        let parts = [(&mut s.time, &self.time), (&mut s.b, &self.b), (&mut s.c, &self.c)];
        for ((x, linear), norm) in parts.into_iter().zip(&self.norms) {
            linear.apply(ops, x, &s.conv);
            if let Some(norm) = norm {
                norm.within(ops, x);
            }
        }
        self.step.apply(ops, &mut s.step, &s.time);
        ops.unary(&mut s.step, Unary::Softplus);
        let Dims { inner, state, .. } = self.dims;
        ops.copy(&mut s.v, &s.conv, candor_ops::Columns::run(inner, 0, 0));
        ops.mul(&mut s.v, &s.step);
        let recurrence = Recurrence {
            heads: inner,
            key_heads: 1,
            key_dim: state,
            value_dim: 1,
            q: &s.c,
            k: &s.b,
            v: &s.v,
            decay: Decay::Rates { time: &s.step, rate: &self.a },
            erase: None,
            bonus: None,
        };
        ops.recur(&mut s.y, at.kv, (at.cached, 1), recurrence, at.step);
        ops.mul_columns(&mut s.conv, &self.d);
        ops.add(&mut s.y, &s.conv);
        ops.swiglu(&mut s.z, &s.y);
        at.tap("ssm_y", &s.z);
        self.output.leave(at.ops, &s.z, out);
    }
}
