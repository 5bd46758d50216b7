//! The feed-forward of a layer: dense, a mixture of experts, both beside each other, or RWKV's.

mod channel_mix;
mod dense;
mod dense_moe;
mod experts;
mod sparse;

use candor_ops::{LayerCache, Ops, Tap};

use crate::{Error, arch::Architecture, at::At, common::Common, keys::Keys, linear::Out, weights::Weights};

/// The matrices of a dense one: gate, up and down.
const DENSE: [&str; 3] = ["ffn_gate", "ffn_up", "ffn_down"];

/// The dimensions of a feed-forward.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Dims {
    Dense(dense::Dims),
    Experts(experts::Dims),
    DenseMoe(dense_moe::Dims),
    ChannelMix(channel_mix::Dims),
}

/// The weights of a feed-forward.
pub(crate) enum Ffn<B: Ops> {
    Dense(dense::Layer<B>),
    Experts(Box<experts::Layer<B>>),
    DenseMoe(Box<dense_moe::Layer<B>>),
    ChannelMix(channel_mix::Layer<B>),
}

/// The values in flight.
pub(crate) enum Scratch<B: Ops> {
    Dense(dense::Scratch<B>),
    Experts(Box<experts::Scratch<B>>),
    DenseMoe(Box<dense_moe::Scratch<B>>),
    ChannelMix(channel_mix::Scratch<B>),
}

impl Dims {
    pub(crate) fn of(keys: &Keys<'_>, common: &Common, i: usize) -> Result<Option<Dims>, Error> {
        if let Some(dims) = channel_mix::Dims::of(keys, common, i) {
            return Ok(Some(Dims::ChannelMix(dims)));
        }
        let names = |parts: [&str; 3]| parts.map(|part| common.name(i, part));
        let width = keys.per_layer("feed_forward_length", common.layers)?.map(|widths| widths[i]);
        let dense = dense::Dims::of(keys, &names(DENSE), width)?;
        if keys.gguf.tensor(&common.name(i, "ffn_gate_inp.weight")).is_none() {
            let cutoff = sparse::cutoff(keys, i)?;
            return Ok(dense.map(|dense| Dims::Dense(dense.cut(cutoff))));
        }
        let shared = dense::Dims::of(keys, &names(["ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp"]), None)?;
        let experts = experts::Dims::of(keys, common, i, shared)?;
        Ok(Some(match dense {
            Some(dense) => Dims::DenseMoe(dense_moe::Dims { dense, experts }),
            None => Dims::Experts(experts),
        }))
    }

    pub(crate) fn has_experts(&self) -> bool {
        matches!(self, Dims::Experts(_) | Dims::DenseMoe(_))
    }

    /// Adds what it keeps of a sequence to a layer's cache.
    pub(crate) fn keep(&self, cache: &mut LayerCache) {
        if let Dims::ChannelMix(dims) = self {
            dims.keep(cache);
        }
    }

    /// Width of the middle.
    pub(crate) fn width(&self) -> usize {
        match self {
            Dims::Dense(dense) => dense.ffn,
            Dims::Experts(experts) => experts.ffn,
            Dims::DenseMoe(dense_moe) => dense_moe.dense.ffn,
            Dims::ChannelMix(dims) => dims.ffn,
        }
    }

    pub(crate) fn scratch<B: Ops>(&self, ops: &mut B, dim: usize, rows: usize) -> Scratch<B> {
        match self {
            Dims::ChannelMix(dims) => Scratch::ChannelMix(dims.scratch(ops, rows)),
            Dims::Dense(dense) => Scratch::Dense(dense.scratch(ops, rows)),
            Dims::Experts(experts) => Scratch::Experts(Box::new(experts.scratch(ops, dim, rows))),
            Dims::DenseMoe(dense_moe) => Scratch::DenseMoe(Box::new(dense_moe.scratch(ops, dim, rows))),
        }
    }

    pub(crate) fn load<B: Ops>(
        &self,
        w: &mut Weights<'_, B>,
        arch: &Architecture,
        common: &Common,
        i: usize,
    ) -> Result<Ffn<B>, Error> {
        let name = |rest: &str| common.name(i, rest);
        let activation = dense::activation(w, arch, (i, w.has(&name("ffn_gate.weight"))))?;
        match *self {
            Dims::Dense(dims) => {
                let names = DENSE.map(name);
                Ok(Ffn::Dense(dense::Layer::load(w, &names, dims, common.dim, activation)?))
            }
            Dims::ChannelMix(dims) => Ok(Ffn::ChannelMix(dims.load(w, i)?)),
            Dims::Experts(dims) => Ok(Ffn::Experts(Box::new(experts::Layer::load(w, name, dims, common, activation)?))),
            Dims::DenseMoe(dims) => {
                Ok(Ffn::DenseMoe(Box::new(dense_moe::Layer::load(w, arch, dims, (common, i), activation)?)))
            }
        }
    }
}

impl<B: Ops> Ffn<B> {
    /// Runs on `h`, the normed stream, and leaves the result in `out`.
    pub(crate) fn run<P: Tap<B>>(&self, at: &mut At<'_, '_, B, P>, s: &mut Scratch<B>, h: &B::Buf, out: Out<'_, B>) {
        match (self, s) {
            (Ffn::Dense(layer), Scratch::Dense(s)) => layer.leave(at, s, h, out),
            (Ffn::Experts(layer), Scratch::Experts(s)) => layer.run(at, s, h, out),
            (Ffn::DenseMoe(layer), Scratch::DenseMoe(s)) => layer.run(at, s, h, out),
            (Ffn::ChannelMix(layer), Scratch::ChannelMix(s)) => layer.run(at, s, h, out),
            _ => unreachable!("scratch was made for the layer's own dimensions"),
        }
    }
}
