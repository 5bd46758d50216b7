//! RWKV's feed-forward, which looks at the row before (Peng et al. 2023).

use candor_ops::{LayerCache, Ops, Tap, Unary};

use crate::{
    Error,
    at::At,
    common::Common,
    keys::Keys,
    linear::{Linear, Out},
    token_shift::Shift,
    weights::Weights,
};

/// The state that keeps the last row; time mixing has the first two.
const SLOT: usize = 2;

/// The dimensions of a channel mixing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Dims {
    dim: usize,
    /// Width `F` of the middle.
    pub(crate) ffn: usize,
    /// Whether the result is gated by a product of its own (RWKV-6).
    gated: bool,
}

/// The weights of a channel mixing.
pub(crate) struct Layer<B: Ops> {
    shift: Shift<B>,
    mix_k: B::Weight,                           // [D]
    key: Linear<B>,                             // [F, D]
    value: Linear<B>,                           // [D, F]
    receptance: Option<(B::Weight, Linear<B>)>, // [D], [D, D]
}

/// The values in flight.
pub(crate) struct Scratch<B: Ops> {
    difference: B::Buf, // [T, D]
    mix: B::Buf,        // [T, D]
    k: B::Buf,          // [T, F]
    r: B::Buf,          // [T, D]
}

impl Dims {
    pub(crate) fn of(keys: &Keys<'_>, common: &Common, i: usize) -> Option<Dims> {
        let shape = |rest: &str| Some(&keys.gguf.tensor(&format!("blk.{i}.channel_mix_{rest}.weight"))?.shape);
        let ffn = shape("key")?.get(1).map_or(1, |&rows| rows as usize);
        Some(Dims { dim: common.dim, ffn, gated: shape("receptance").is_some() })
    }

    pub(crate) fn keep(&self, cache: &mut LayerCache) {
        cache.states[SLOT] = self.dim;
    }

    pub(crate) fn widths(&self) -> [usize; 4] {
        [self.dim, self.dim, self.ffn, self.dim]
    }

    pub(crate) fn scratch<B: Ops>(&self, ops: &mut B, rows: usize) -> Scratch<B> {
        let [difference, mix, k, r] = self.widths().map(|width| ops.buffer(rows, width));
        Scratch { difference, mix, k, r }
    }

    pub(crate) fn load<B: Ops>(&self, w: &mut Weights<'_, B>, i: usize) -> Result<Layer<B>, Error> {
        let name = |rest: &str| format!("blk.{i}.channel_mix_{rest}");
        let Dims { dim, ffn, gated } = *self;
        let receptance = match gated {
            true => Some((
                w.spread(&format!("{}.weight", name("lerp_r")), dim)?,
                Linear::load(w, &name("receptance"), dim, dim)?,
            )),
            false => None,
        };
        Ok(Layer {
            shift: Shift::load(w, dim)?,
            mix_k: w.spread(&format!("{}.weight", name("lerp_k")), dim)?,
            key: Linear::load(w, &name("key"), dim, ffn)?,
            value: Linear::load(w, &name("value"), ffn, dim)?,
            receptance,
        })
    }
}

impl<B: Ops> Layer<B> {
    /// `sigmoid(r) * (relu(k)^2 @ value)`
    pub(crate) fn run<P: Tap<B>>(&self, at: &mut At<'_, '_, B, P>, s: &mut Scratch<B>, h: &B::Buf, out: Out<'_, B>) {
        let ops = &mut *at.ops;
        let place = (&mut *at.kv, (at.cached, SLOT));
        self.shift.difference(ops, (&mut s.difference, &mut s.mix), h, place, at.step);
        self.shift.mix(ops, &mut s.mix, h, &s.difference, &self.mix_k);
        self.key.apply(ops, &mut s.k, &s.mix);
        ops.unary(&mut s.k, Unary::ReluSquared);
        let Some((mix, receptance)) = &self.receptance else {
            return self.value.leave(ops, &s.k, out);
        };
        self.shift.mix(ops, &mut s.mix, h, &s.difference, mix);
        receptance.apply(ops, &mut s.r, &s.mix);
        ops.unary(&mut s.r, Unary::Sigmoid);
        self.value.apply(ops, out.y, &s.k);
        ops.mul(out.y, &s.r);
        out.add(ops);
    }
}
