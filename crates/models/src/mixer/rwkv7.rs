//! RWKV-7's time mixing (Peng et al. 2025, Goose).

use candor_ops::{Columns, Decay, LayerCache, Norm, NormKind, Ops, Recurrence, Tap, Unary};

use super::rwkv6::HEAD_EPS;
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

/// Mixed inputs, in the order of `time_mix_lerp_fused`: of receptance, decay, keys, values, learning rate and gate.
const MIXES: usize = 6;
/// The slowest decay is `exp(-this)`: `exp(-1/2)`, as the authors' program has it.
const SLOWEST: f32 = 0.606_531;
/// Added to the square of the length of a key: a constant of the authors' program.
const KEY_EPS: f32 = 1e-12;

/// The dimensions of a time mixing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Dims {
    dim: usize,
    /// Width of a head.
    head: usize,
    /// Width of what decay, learning rate, the first values' share and the gate are made from.
    ranks: [usize; 4],
}

/// A vector that is made from the row: `w0 + w2 f(w1 x)`.
struct Low<B: Ops> {
    w0: Option<B::Weight>, // [D]
    w1: B::Weight,         // [rank, D]
    w2: B::Weight,         // [D, rank]
}

/// The weights of a time mixing.
pub(crate) struct Layer<B: Ops> {
    dims: Dims,
    first: bool,
    shift: Shift<B>,
    mixes: Vec<B::Weight>, // [D] each
    decay: Low<B>,
    rate: Low<B>,
    values: Option<Low<B>>,
    gate: Low<B>,
    k_k: B::Weight,          // [D]
    k_a: B::Weight,          // [D]
    r_k: B::Weight,          // [D]
    receptance: Linear<B>,   // [D, D]
    key: Linear<B>,          // [D, D]
    value: Linear<B>,        // [D, D]
    norm: Option<Normed<B>>, // [D], each head by itself
    output: Linear<B>,       // [D, D]
}

/// The values in flight.
pub(crate) struct Scratch<B: Ops> {
    difference: B::Buf, // [T, D]
    room: B::Buf,       // [T, D]
    mix: B::Buf,        // [T, D]
    lows: [B::Buf; 4],  // [T, rank] each
    r: B::Buf,          // [T, D]
    k: B::Buf,          // [T, D]
    v: B::Buf,          // [T, D]
    /// The values of the first layer, which all others read.
    v_first: B::Buf, // [T, D]
    w: B::Buf,          // [T, D]
    a: B::Buf,          // [T, D]
    g: B::Buf,          // [T, D]
    kk: B::Buf,         // [T, D]
    back: B::Buf,       // [T, D]
    bonus: B::Buf,      // [T, H]
    y: B::Buf,          // [T, D]
}

impl<B: Ops> Scratch<B> {
    pub(crate) fn new(bufs: [B::Buf; 18]) -> Self {
        let [difference, room, mix, l0, l1, l2, l3, r, k, v, v_first, w, a, g, kk, back, bonus, y] = bufs;
        Scratch { difference, room, mix, lows: [l0, l1, l2, l3], r, k, v, v_first, w, a, g, kk, back, bonus, y }
    }
}

impl Dims {
    pub(crate) fn of(keys: &Keys<'_>, common: &Common, i: usize) -> Result<Option<Dims>, Error> {
        if keys.gguf.tensor(&format!("blk.{i}.time_mix_r_k.weight")).is_none() {
            return Ok(None);
        }
        const HEAD: &str = "wkv.head_size";
        let (dim, head) = (common.dim, keys.positive(HEAD)?);
        if !dim.is_multiple_of(head) {
            return Err(keys.bad(HEAD, &format!("a divisor of {dim}"), head));
        }
        let rank = |of: &str| keys.positive(&format!("attention.{of}_lora_rank"));
        let ranks = [rank("decay")?, rank("iclr")?, rank("value_residual_mix")?, rank("gate")?];
        Ok(Some(Dims { dim, head, ranks }))
    }

    pub(crate) fn keep(&self, cache: &mut LayerCache) {
        cache.states[0] = self.dim;
        cache.states[1] = self.dim * self.head;
    }

    pub(crate) fn widths(&self) -> [usize; 18] {
        let Dims { dim, head, ranks: [a, b, c, d] } = *self;
        [dim, dim, dim, a, b, c, d, dim, dim, dim, dim, dim, dim, dim, dim, dim, dim / head, dim]
    }
}

impl<B: Ops> Low<B> {
    fn load(w: &mut Weights<'_, B>, name: &str, (dim, rank): (usize, usize)) -> Result<Low<B>, Error> {
        let part = |n: usize| format!("{name}{n}.weight");
        Ok(Low {
            w0: w.optional(&part(0), dim)?,
            w1: w.matrix(&part(1), dim, rank)?,
            w2: w.matrix(&part(2), rank, dim)?,
        })
    }

    fn apply(&self, ops: &mut B, out: &mut B::Buf, low: &mut B::Buf, x: &B::Buf, f: Option<Unary>) {
        ops.matmul(low, x, &self.w1);
        if let Some(f) = f {
            ops.unary(low, f);
        }
        ops.matmul(out, low, &self.w2);
        if let Some(w0) = &self.w0 {
            ops.add_bias(out, w0);
        }
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
        let Dims { dim, head, ranks: [decay, rate, values, gate] } = dims;
        let norm = Norm { kind: NormKind::Layer, run: head, eps: HEAD_EPS };
        let fused = weight("lerp_fused");
        let numbers = w.spread_numbers(&fused, MIXES * dim)?;
        let mixes = numbers.chunks_exact(dim).enumerate();
        let mixes = mixes.map(|(n, mix)| w.made(&format!("{fused}[{n}]"), (dim, 1), mix)).collect::<Result<_, _>>()?;
        let values = match w.has(&weight("v1")) {
            true => Some(Low::load(w, &name("v"), (dim, values))?),
            false => None,
        };
        Ok(Layer {
            dims,
            first: i == 0,
            shift: Shift::load(w, dim)?,
            mixes,
            decay: Low::load(w, &name("w"), (dim, decay))?,
            rate: Low::load(w, &name("a"), (dim, rate))?,
            values,
            gate: Low::load(w, &name("g"), (dim, gate))?,
            k_k: w.spread(&weight("k_k"), dim)?,
            k_a: w.spread(&weight("k_a"), dim)?,
            r_k: w.spread(&weight("r_k"), dim)?,
            receptance: Linear::load(w, &name("receptance"), dim, dim)?,
            key: Linear::load(w, &name("key"), dim, dim)?,
            value: Linear::load(w, &name("value"), dim, dim)?,
            norm: Normed::of_runs(w, &name("ln"), norm, dim)?,
            output: Linear::load(w, &name("output"), dim, dim)?,
        })
    }

    pub(crate) fn run<P: Tap<B>>(&self, at: &mut At<'_, '_, B, P>, s: &mut Scratch<B>, h: &B::Buf, out: Out<'_, B>) {
        let Dims { dim, head, .. } = self.dims;
        let (heads, whole) = (dim / head, Columns::run(dim, 0, 0));
        let ops = &mut *at.ops;
        self.shift.difference(ops, (&mut s.difference, &mut s.room), h, (at.kv, (at.cached, 0)), at.step);
        self.inputs(ops, s, h);
        // kk = unit(k * k_k); k = k + k * (a - 1) * k_a
        ops.copy(&mut s.kk, &s.k, whole);
        ops.mul_columns(&mut s.kk, &self.k_k);
        ops.norm(&mut s.kk, Norm { kind: NormKind::L2, run: head, eps: KEY_EPS }, None, None);
        ops.copy(&mut s.room, &s.a, whole);
        ops.unary(&mut s.room, Unary::Affine { scale: 1.0, offset: -1.0 });
        ops.mul_columns(&mut s.room, &self.k_a);
        ops.unary(&mut s.room, Unary::Affine { scale: 1.0, offset: 1.0 });
        ops.mul(&mut s.k, &s.room);
        // What is read is -kk, what is given back kk * a; the sign may stand on either.
        ops.copy(&mut s.back, &s.kk, whole);
        ops.mul(&mut s.back, &s.a);
        ops.unary(&mut s.back, Unary::scale(-1.0));
        let recurrence = Recurrence {
            heads,
            key_heads: heads,
            key_dim: head,
            value_dim: head,
            q: &s.r,
            k: &s.k,
            v: &s.v,
            decay: Decay::Keys(&s.w),
            erase: Some((&s.kk, &s.back)),
            bonus: None,
        };
        ops.recur(&mut s.y, at.kv, (at.cached, 1), recurrence, at.step);
        if let Some(norm) = &self.norm {
            norm.within(ops, &mut s.y);
        }
        // y += sum(r * k * r_k) * v, head by head
        ops.mul_columns(&mut s.r, &self.r_k);
        ops.dot_groups(&mut s.bonus, &s.r, &s.k);
        ops.mul_groups(&mut s.v, &s.bonus);
        ops.add(&mut s.y, &s.v);
        ops.mul(&mut s.y, &s.g);
        at.tap("wkv_y", &s.y);
        self.output.leave(at.ops, &s.y, out);
    }

    /// Receptance, decay, keys, values, learning rate and gate.
    fn inputs(&self, ops: &mut B, s: &mut Scratch<B>, h: &B::Buf) {
        let whole = Columns::run(self.dims.dim, 0, 0);
        let [low_w, low_a, low_v, low_g] = &mut s.lows;
        let mix = |ops: &mut B, out: &mut B::Buf, n: usize| self.shift.mix(ops, out, h, &s.difference, &self.mixes[n]);
        mix(ops, &mut s.mix, 0);
        self.receptance.apply(ops, &mut s.r, &s.mix);
        mix(ops, &mut s.mix, 1);
        self.decay.apply(ops, &mut s.w, low_w, &s.mix, Some(Unary::Tanh));
        for f in [Unary::Sigmoid, Unary::scale(-SLOWEST), Unary::Exp] {
            ops.unary(&mut s.w, f);
        }
        mix(ops, &mut s.mix, 2);
        self.key.apply(ops, &mut s.k, &s.mix);
        mix(ops, &mut s.mix, 3);
        self.value.apply(ops, &mut s.v, &s.mix);
        match &self.values {
            _ if self.first => ops.copy(&mut s.v_first, &s.v, whole),
            Some(values) => {
                // v += (v_first - v) * sigmoid(...)
                values.apply(ops, &mut s.room, low_v, &s.mix, None);
                ops.unary(&mut s.room, Unary::Sigmoid);
                ops.copy(&mut s.y, &s.v, whole);
                ops.unary(&mut s.y, Unary::scale(-1.0));
                ops.add(&mut s.y, &s.v_first);
                ops.mul(&mut s.y, &s.room);
                ops.add(&mut s.v, &s.y);
            }
            None => {}
        }
        mix(ops, &mut s.mix, 4);
        self.rate.apply(ops, &mut s.a, low_a, &s.mix, None);
        ops.unary(&mut s.a, Unary::Sigmoid);
        mix(ops, &mut s.mix, 5);
        self.gate.apply(ops, &mut s.g, low_g, &s.mix, Some(Unary::Sigmoid));
    }
}
