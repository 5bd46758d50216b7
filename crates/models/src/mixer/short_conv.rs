//! Gated short convolutions (Liquid AI 2025, LFM2).

use candor_ops::{LayerCache, Ops, Tap};

use crate::{
    Error,
    arch::Architecture,
    at::At,
    common::{Common, Gives},
    keys::Keys,
    linear::{Linear, Out},
    weights::Weights,
};

/// The dimensions of a short convolution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Dims {
    dim: usize,
    /// Rows that it sees.
    taps: usize,
}

/// The weights of a short convolution.
pub(crate) struct Layer<B: Ops> {
    b: Linear<B>,      // [D, D]
    c: Linear<B>,      // [D, D]
    x: Linear<B>,      // [D, D]
    conv: Linear<B>,   // [D, taps]
    output: Linear<B>, // [D, D]
}

/// The values in flight.
pub(crate) struct Scratch<B: Ops> {
    b: B::Buf,    // [T, D]
    c: B::Buf,    // [T, D]
    x: B::Buf,    // [T, D]
    conv: B::Buf, // [T, D]
}

impl<B: Ops> Scratch<B> {
    pub(crate) fn new([b, c, x, conv]: [B::Buf; 4]) -> Self {
        Scratch { b, c, x, conv }
    }
}

impl Dims {
    pub(crate) fn of(keys: &Keys<'_>, common: &Common, i: usize) -> Result<Option<Dims>, Error> {
        if keys.gguf.tensor(&format!("blk.{i}.shortconv.conv.weight")).is_none() {
            return Ok(None);
        }
        if common.gives == Gives::Embeddings {
            let key = keys.name("attention.causal");
            return Err(Error::Unsupported(format!("{key}: false is not supported where layers have convolutions")));
        }
        Ok(Some(Dims { dim: common.dim, taps: keys.positive("shortconv.l_cache")? }))
    }

    pub(crate) fn keep(&self, cache: &mut LayerCache) {
        cache.states = [(self.taps - 1) * self.dim, 0, 0];
    }

    pub(crate) fn widths(&self) -> [usize; 4] {
        [self.dim; 4]
    }
}

impl<B: Ops> Layer<B> {
    pub(crate) fn load(
        w: &mut Weights<'_, B>,
        _: &Architecture,
        _: &Common,
        Dims { dim, taps }: Dims,
        i: usize,
    ) -> Result<Layer<B>, Error> {
        let name = |rest: &str| format!("blk.{i}.shortconv.{rest}");
        let part = |w: &mut _, n: usize| Linear::part(w, &name("in_proj"), (dim, 3 * dim), n * dim..(n + 1) * dim);
        Ok(Layer {
            b: part(w, 0)?,
            c: part(w, 1)?,
            x: part(w, 2)?,
            conv: Linear::load(w, &name("conv"), taps, dim)?,
            output: Linear::load(w, &name("out_proj"), dim, dim)?,
        })
    }

    /// `(c * conv(b * x)) @ w`
    pub(crate) fn run<P: Tap<B>>(&self, at: &mut At<'_, '_, B, P>, s: &mut Scratch<B>, h: &B::Buf, out: Out<'_, B>) {
        let ops = &mut *at.ops;
        ops.matmul3((&mut s.b, &self.b.weight), (&mut s.c, &self.c.weight), (&mut s.x, &self.x.weight), h);
        for (x, linear) in [(&mut s.b, &self.b), (&mut s.c, &self.c), (&mut s.x, &self.x)] {
            linear.add_bias(ops, x);
        }
        ops.mul(&mut s.b, &s.x);
        ops.conv(&mut s.conv, at.kv, (at.cached, 0), &s.b, &self.conv.weight, at.step);
        self.conv.add_bias(ops, &mut s.conv);
        ops.mul(&mut s.c, &s.conv);
        at.tap("shortconv_y", &s.c);
        self.output.leave(at.ops, &s.c, out);
    }
}
