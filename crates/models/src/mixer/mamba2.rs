//! Mamba-2 (Dao and Gu 2024): a state space per head of several channels.

use candor_ops::{Columns, Decay, LayerCache, Norm, NormKind, Ops, Recurrence, Tap, Unary};

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

/// The dimensions of a Mamba-2 layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Dims {
    /// Channels.
    inner: usize,
    heads: usize,
    /// Heads of B and C.
    groups: usize,
    /// Width of B and C.
    state: usize,
    /// Rows that the convolution sees.
    taps: usize,
}

/// The weights of a Mamba-2 layer.
pub(crate) struct Layer<B: Ops> {
    dims: Dims,
    z: Linear<B>,            // [inner, D]
    xbc: Linear<B>,          // [inner + 2*groups*state, D]
    time: Linear<B>,         // [heads, D]
    time_bias: B::Weight,    // [heads]
    conv: Linear<B>,         // [inner + 2*groups*state, taps]
    a: B::Weight,            // [heads], below zero
    d: B::Weight,            // [inner], a head's number for each of its channels
    norm: Option<Normed<B>>, // [inner], each group by itself
    output: Linear<B>,       // [D, inner]
}

/// The values in flight.
pub(crate) struct Scratch<B: Ops> {
    z: B::Buf,     // [T, inner]
    xbc: B::Buf,   // [T, inner + 2*groups*state]
    conv: B::Buf,  // [T, inner + 2*groups*state]
    x: B::Buf,     // [T, inner]
    b: B::Buf,     // [T, groups*state]
    c: B::Buf,     // [T, groups*state]
    time: B::Buf,  // [T, heads]
    decay: B::Buf, // [T, heads]
    v: B::Buf,     // [T, inner]
    y: B::Buf,     // [T, inner]
}

impl<B: Ops> Scratch<B> {
    pub(crate) fn new([z, xbc, conv, x, b, c, time, decay, v, y]: [B::Buf; 10]) -> Self {
        Scratch { z, xbc, conv, x, b, c, time, decay, v, y }
    }
}

impl Dims {
    pub(crate) fn of(keys: &Keys<'_>, _: &Common, i: usize) -> Result<Option<Dims>, Error> {
        let has = |rest: &str| keys.gguf.tensor(&format!("blk.{i}.{rest}.weight")).is_some();
        if !has("ssm_in") || has("ssm_x") {
            return Ok(None);
        }
        let dims = Dims {
            inner: keys.positive("ssm.inner_size")?,
            heads: keys.positive("ssm.time_step_rank")?,
            groups: keys.positive("ssm.group_count")?,
            state: keys.positive("ssm.state_size")?,
            taps: keys.positive("ssm.conv_kernel")?,
        };
        if !dims.inner.is_multiple_of(dims.heads) || !dims.heads.is_multiple_of(dims.groups) {
            let expected = format!("a multiple of {} groups and a divisor of {}", dims.groups, dims.inner);
            return Err(keys.bad("ssm.time_step_rank", &expected, dims.heads));
        }
        Ok(Some(dims))
    }

    fn mixed(&self) -> usize {
        self.inner + 2 * self.groups * self.state
    }

    pub(crate) fn keep(&self, cache: &mut LayerCache) {
        cache.states = [(self.taps - 1) * self.mixed(), self.inner * self.state, 0];
    }

    pub(crate) fn widths(&self) -> [usize; 10] {
        let Dims { inner, heads, groups, state, .. } = *self;
        let (mixed, keys) = (self.mixed(), groups * state);
        [inner, mixed, mixed, inner, keys, keys, heads, heads, inner, inner]
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
        let Dims { inner, heads, groups, taps, .. } = dims;
        let mixed = dims.mixed();
        let input = (common.dim, inner + mixed + heads);
        let d = w.spread_numbers(&name("ssm_d"), heads)?;
        let d: Vec<f32> = d.into_iter().flat_map(|d| std::iter::repeat_n(d, inner / heads)).collect();
        let norm = Norm { kind: NormKind::Rms, run: inner / groups, eps: common.eps };
        let part = |w: &mut _, range| Linear::part(w, &name("ssm_in"), input, range)?.scaled(w, &name("ssm_in"));
        Ok(Layer {
            dims,
            z: part(w, 0..inner)?,
            xbc: part(w, inner..inner + mixed)?,
            time: part(w, inner + mixed..inner + mixed + heads)?,
            time_bias: w.vector(&name("ssm_dt.bias"), heads)?,
            conv: Linear::load(w, &name("ssm_conv1d"), taps, mixed)?,
            a: w.spread(&name("ssm_a"), heads)?,
            d: w.made(&name("ssm_d[spread]"), (inner, 1), &d)?,
            norm: Normed::of_runs(w, &name("ssm_norm"), norm, inner)?,
            output: Linear::load(w, &name("ssm_out"), inner, common.dim)?.scaled(w, &name("ssm_out"))?,
        })
    }

    pub(crate) fn run<P: Tap<B>>(&self, at: &mut At<'_, '_, B, P>, s: &mut Scratch<B>, h: &B::Buf, out: Out<'_, B>) {
        let Dims { inner, heads, groups, state, .. } = self.dims;
        let ops = &mut *at.ops;
        let products = [(&mut s.z, &self.z.weight), (&mut s.xbc, &self.xbc.weight), (&mut s.time, &self.time.weight)];
        let [z, xbc, time] = products;
        ops.matmul3(z, xbc, time, h);
        for (x, linear) in [(&mut s.z, &self.z), (&mut s.xbc, &self.xbc), (&mut s.time, &self.time)] {
            linear.finish(ops, x);
        }
        ops.conv(&mut s.conv, at.kv, (at.cached, 0), &s.xbc, &self.conv.weight, at.step);
        self.conv.add_bias(ops, &mut s.conv);
        ops.unary(&mut s.conv, Unary::Silu);
        let keys = groups * state;
        ops.copy(&mut s.x, &s.conv, Columns::run(inner, 0, 0));
        ops.copy(&mut s.b, &s.conv, Columns::run(keys, inner, 0));
        ops.copy(&mut s.c, &s.conv, Columns::run(keys, inner + keys, 0));
        ops.add_bias(&mut s.time, &self.time_bias);
        ops.unary(&mut s.time, Unary::Softplus);
        ops.copy(&mut s.decay, &s.time, Columns::run(heads, 0, 0));
        ops.mul_columns(&mut s.decay, &self.a);
        ops.unary(&mut s.decay, Unary::Exp);
        ops.copy(&mut s.v, &s.x, Columns::run(inner, 0, 0));
        ops.mul_groups(&mut s.v, &s.time);
        let recurrence = Recurrence {
            heads,
            key_heads: groups,
            key_dim: state,
            value_dim: inner / heads,
            q: &s.c,
            k: &s.b,
            v: &s.v,
            decay: Decay::Heads(&s.decay),
            erase: None,
            bonus: None,
        };
        ops.recur(&mut s.y, at.kv, (at.cached, 1), recurrence, at.step);
        ops.mul_columns(&mut s.x, &self.d);
        ops.add(&mut s.y, &s.x);
        ops.swiglu(&mut s.z, &s.y);
        if let Some(norm) = &self.norm {
            norm.within(ops, &mut s.z);
        }
        at.tap("ssm_y", &s.z);
        self.output.leave(at.ops, &s.z, out);
    }
}
