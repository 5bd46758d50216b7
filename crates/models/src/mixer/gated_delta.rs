//! Gated delta networks (Yang et al. 2024): linear attention that takes back what it knew of a key before it writes
//! again.

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

/// Added to the square of the length of queries and keys: a constant of the authors' program.
const EPS: f32 = 1e-6;

/// The dimensions of a gated delta network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Dims {
    /// Heads of queries and keys, `G`, and of values, `H`.
    key_heads: usize,
    heads: usize,
    key_dim: usize,
    value_dim: usize,
    /// Rows that the convolution sees.
    taps: usize,
    /// How the file has its heads.
    order: Order,
}

/// Which key head a value head goes with, and where the gates' numbers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// Neighbours share a key head, and `ssm_ba` has for each key head its betas and then its alphas.
    Grouped,
    /// Value head `h` goes with key head `h % G`, and the gates have a matrix each.
    Tiled,
}

/// The weights of a gated delta network.
pub(crate) struct Layer<B: Ops> {
    dims: Dims,
    qkv: Linear<B>, // [2*G*K + H*V, D]
    z: Linear<B>,   // [H*V, D]
    gates: Gates<B>,
    conv: Linear<B>,      // [2*G*K + H*V, taps]
    a: B::Weight,         // [H], below zero
    time_bias: B::Weight, // [H]
    norm: Normed<B>,      // [V]
    output: Linear<B>,    // [D, H*V]
}

/// What beta and alpha are made by.
enum Gates<B: Ops> {
    Together(Linear<B>),         // [2*H, D]
    Apart(Linear<B>, Linear<B>), // [H, D]
}

/// The values in flight.
pub(crate) struct Scratch<B: Ops> {
    qkv: B::Buf,   // [T, 2*G*K + H*V]
    conv: B::Buf,  // [T, 2*G*K + H*V]
    z: B::Buf,     // [T, H*V]
    gates: B::Buf, // [T, 2*H]
    beta: B::Buf,  // [T, H]
    decay: B::Buf, // [T, H]
    keys: B::Buf,  // [T, G*K]
    q: B::Buf,     // [T, H*K]
    k: B::Buf,     // [T, H*K]
    back: B::Buf,  // [T, H*K]
    v: B::Buf,     // [T, H*V]
    y: B::Buf,     // [T, H*V]
}

impl<B: Ops> Scratch<B> {
    pub(crate) fn new(bufs: [B::Buf; 12]) -> Self {
        let [qkv, conv, z, gates, beta, decay, keys, q, k, back, v, y] = bufs;
        Scratch { qkv, conv, z, gates, beta, decay, keys, q, k, back, v, y }
    }
}

impl Dims {
    pub(crate) fn of(keys: &Keys<'_>, _: &Common, i: usize) -> Result<Option<Dims>, Error> {
        let has = |rest: &str| keys.gguf.tensor(&format!("blk.{i}.{rest}.weight")).is_some();
        let order = match (has("ssm_ba"), has("ssm_beta")) {
            (true, _) => Order::Grouped,
            (false, true) => Order::Tiled,
            (false, false) => return Ok(None),
        };
        let (heads, inner) = (keys.positive("ssm.time_step_rank")?, keys.positive("ssm.inner_size")?);
        let key_heads = keys.positive("ssm.group_count")?;
        if !heads.is_multiple_of(key_heads) || !inner.is_multiple_of(heads) {
            let expected = format!("a multiple of {key_heads} and a divisor of {inner}");
            return Err(keys.bad("ssm.time_step_rank", &expected, heads));
        }
        Ok(Some(Dims {
            key_heads,
            heads,
            key_dim: keys.positive("ssm.state_size")?,
            value_dim: inner / heads,
            taps: keys.positive("ssm.conv_kernel")?,
            order,
        }))
    }

    fn mixed(&self) -> usize {
        2 * self.key_heads * self.key_dim + self.heads * self.value_dim
    }

    pub(crate) fn keep(&self, cache: &mut LayerCache) {
        cache.states = [(self.taps - 1) * self.mixed(), self.heads * self.key_dim * self.value_dim, 0];
    }

    pub(crate) fn widths(&self) -> [usize; 12] {
        let Dims { key_heads, heads, key_dim, value_dim, .. } = *self;
        let (mixed, values, keys) = (self.mixed(), heads * value_dim, heads * key_dim);
        [mixed, mixed, values, 2 * heads, heads, heads, key_heads * key_dim, keys, keys, keys, values, values]
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
        let Dims { heads, value_dim, taps, order, .. } = dims;
        let (dim, mixed, values) = (common.dim, dims.mixed(), heads * value_dim);
        let scaled = |w: &mut _, part: &str, cols, rows| {
            let name = name(part);
            Linear::load(w, &name, cols, rows)?.scaled(w, &name)
        };
        let gates = match order {
            Order::Grouped => Gates::Together(Linear::load(w, &name("ssm_ba"), dim, 2 * heads)?),
            Order::Tiled => Gates::Apart(scaled(w, "ssm_beta", dim, heads)?, scaled(w, "ssm_alpha", dim, heads)?),
        };
        let norm = Norm { kind: NormKind::Rms, run: value_dim, eps: common.eps };
        Ok(Layer {
            dims,
            qkv: scaled(w, "attn_qkv", dim, mixed)?,
            z: scaled(w, "attn_gate", dim, values)?,
            gates,
            conv: Linear::load(w, &name("ssm_conv1d"), taps, mixed)?,
            a: w.spread(&name("ssm_a"), heads)?,
            time_bias: w.vector(&name("ssm_dt.bias"), heads)?,
            norm: Normed::load(w, &name("ssm_norm"), norm)?,
            output: scaled(w, "ssm_out", values, dim)?,
        })
    }

    pub(crate) fn run<P: Tap<B>>(&self, at: &mut At<'_, '_, B, P>, s: &mut Scratch<B>, h: &B::Buf, out: Out<'_, B>) {
        let Dims { key_heads, heads, key_dim, value_dim, .. } = self.dims;
        let ops = &mut *at.ops;
        ops.matmul2((&mut s.qkv, &self.qkv.weight), (&mut s.z, &self.z.weight), h);
        self.qkv.rescale(ops, &mut s.qkv);
        self.z.rescale(ops, &mut s.z);
        ops.conv(&mut s.conv, at.kv, (at.cached, 0), &s.qkv, &self.conv.weight, at.step);
        self.conv.add_bias(ops, &mut s.conv);
        ops.unary(&mut s.conv, Unary::Silu);
        let keys = key_heads * key_dim;
        ops.copy(&mut s.v, &s.conv, Columns::run(heads * value_dim, 2 * keys, 0));
        let unit = Norm { kind: NormKind::L2, run: key_dim, eps: EPS };
        for (x, from) in [(&mut s.q, 0), (&mut s.k, keys)] {
            ops.copy(&mut s.keys, &s.conv, Columns::run(keys, from, 0));
            ops.norm(&mut s.keys, unit, None, None);
            self.spread(ops, x, &s.keys);
        }
        ops.unary(&mut s.q, Unary::scale(1.0 / (key_dim as f32).sqrt()));
        self.gates(ops, s, h);
        // What is left of the state gives back what it knew of the key, and the new value takes its place.
        ops.copy(&mut s.back, &s.k, Columns::run(heads * key_dim, 0, 0));
        ops.mul_groups(&mut s.back, &s.beta);
        ops.mul_groups(&mut s.back, &s.decay);
        ops.unary(&mut s.back, Unary::scale(-1.0));
        ops.mul_groups(&mut s.v, &s.beta);
        let recurrence = Recurrence {
            heads,
            key_heads: heads,
            key_dim,
            value_dim,
            q: &s.q,
            k: &s.k,
            v: &s.v,
            decay: Decay::Heads(&s.decay),
            erase: Some((&s.k, &s.back)),
            bonus: None,
        };
        ops.recur(&mut s.y, at.kv, (at.cached, 1), recurrence, at.step);
        self.norm.within(ops, &mut s.y);
        ops.swiglu(&mut s.z, &s.y);
        at.tap("delta_y", &s.z);
        self.output.leave(at.ops, &s.z, out);
    }

    /// Gives each value head its key head.
    fn spread(&self, ops: &mut B, out: &mut B::Buf, x: &B::Buf) {
        let Dims { key_heads, heads, key_dim: len, order, .. } = self.dims;
        let times = heads / key_heads;
        for n in 0..times {
            let to = match order {
                Order::Grouped => (n * len, times * len),
                Order::Tiled => (n * key_heads * len, len),
            };
            ops.copy(out, x, Columns { groups: key_heads, len, from: (0, len), to });
        }
    }

    /// `beta = sigmoid(b)` and `decay = exp(a * softplus(alpha + bias))`.
    fn gates(&self, ops: &mut B, s: &mut Scratch<B>, h: &B::Buf) {
        let Dims { key_heads, heads, .. } = self.dims;
        match &self.gates {
            Gates::Together(linear) => {
                linear.apply(ops, &mut s.gates, h);
                let len = heads / key_heads;
                let half = |from| Columns { groups: key_heads, len, from: (from, 2 * len), to: (0, len) };
                ops.copy(&mut s.beta, &s.gates, half(0));
                ops.copy(&mut s.decay, &s.gates, half(len));
            }
            Gates::Apart(beta, alpha) => {
                beta.apply(ops, &mut s.beta, h);
                alpha.apply(ops, &mut s.decay, h);
            }
        }
        ops.unary(&mut s.beta, Unary::Sigmoid);
        ops.add_bias(&mut s.decay, &self.time_bias);
        ops.unary(&mut s.decay, Unary::Softplus);
        ops.mul_columns(&mut s.decay, &self.a);
        ops.unary(&mut s.decay, Unary::Exp);
    }
}
