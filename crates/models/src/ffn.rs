//! The feed-forward of a layer: dense, a mixture of experts, both beside each other, or RWKV's. The dense one is here.

use candor_ops::{LayerCache, Ops, Tap, Unary};

use crate::{
    Architecture, Error, beside, channel_mix,
    config::Config,
    experts,
    keys::Keys,
    linear::{Linear, Out, To},
    mixer::At,
    registry::Activation,
    sparse,
    weights::Weights,
};

/// The dimensions of a feed-forward.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Dims {
    Dense(Dense),
    Experts(experts::Dims),
    Beside(beside::Dims),
    Channels(channel_mix::Dims),
}

/// Of a dense one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Dense {
    /// Width `F` of the middle.
    pub(crate) ffn: usize,
    gated: Gated,
    /// Deviations above the mean below which what goes into the function is cut off.
    cutoff: Option<f32>,
}

/// Where the gate is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gated {
    /// Nowhere.
    No,
    /// A matrix of its own.
    Own,
    /// The first half of the other's outputs.
    Fused,
}

/// The weights of a feed-forward.
pub(crate) enum Ffn<B: Ops> {
    Dense(DenseLayer<B>),
    Experts(Box<experts::Layer<B>>),
    Beside(Box<beside::Layer<B>>),
    Channels(channel_mix::Layer<B>),
}

pub(crate) struct DenseLayer<B: Ops> {
    gate: Option<Linear<B>>, // [F, D]
    up: Linear<B>,           // [F, D]
    down: Linear<B>,         // [D, F]
    activation: Unary,
    clamped: bool,
    cutoff: Option<(f32, usize)>, // and the width of what is cut
}

/// The values in flight.
pub(crate) enum Scratch<B: Ops> {
    Dense(DenseScratch<B>),
    Experts(Box<experts::Scratch<B>>),
    Beside(Box<beside::Scratch<B>>),
    Channels(channel_mix::Scratch<B>),
}

pub(crate) struct DenseScratch<B: Ops> {
    gate: B::Buf, // [T, F]
    up: B::Buf,   // [T, F]
    cut: Option<sparse::Scratch<B>>,
}

impl Dims {
    pub(crate) fn of(keys: &Keys<'_>, arch: &Architecture, config: &Config, i: usize) -> Result<Option<Dims>, Error> {
        let name = |rest: &str| config.name(i, &format!("{rest}.weight"));
        let shape = |rest: &str| keys.gguf.tensor(&name(rest)).map(|info| &info.shape);
        let outputs = |shape: &Vec<u64>| shape.get(1).copied().unwrap_or(1) as usize;
        let dense = |up: &str, gate: &str, down: &str, width: Option<usize>| -> Result<Option<Dense>, Error> {
            if [up, gate, down].iter().all(|part| shape(part).is_none()) {
                return Ok(None);
            }
            let there = |part: &str| shape(part).ok_or_else(|| Error::MissingTensor(name(part)));
            let (rows, cols) = (outputs(there(up)?), there(down)?.first().copied().unwrap_or(0) as usize);
            // Qwen 1 counts both halves.
            let ffn = width.filter(|&width| width != 0 && width != 2 * cols).unwrap_or(cols);
            let gated = match shape(gate).is_some() {
                true => Gated::Own,
                false if rows == 2 * ffn => Gated::Fused,
                false if arch.activation.opens() => return Err(Error::MissingTensor(name(gate))),
                false => Gated::No,
            };
            Ok(Some(Dense { ffn, gated, cutoff: None }))
        };
        if let Some(dims) = channel_mix::Dims::of(keys, config, i) {
            return Ok(Some(Dims::Channels(dims)));
        }
        let width = keys.per_layer("feed_forward_length", config.layers)?.map(|widths| widths[i]);
        if shape("ffn_gate_inp").is_none() {
            let cutoff = sparse::cutoff(keys, config, i)?;
            let dense = dense("ffn_up", "ffn_gate", "ffn_down", width)?;
            return Ok(dense.map(|dense| Dims::Dense(Dense { cutoff, ..dense })));
        }
        let shared = dense("ffn_up_shexp", "ffn_gate_shexp", "ffn_down_shexp", None)?;
        let experts = experts::Dims::of(keys, arch, config, i, shared)?;
        Ok(Some(match dense("ffn_up", "ffn_gate", "ffn_down", width)? {
            Some(dense) => Dims::Beside(beside::Dims { dense, experts }),
            None => Dims::Experts(experts),
        }))
    }

    pub(crate) fn has_experts(&self) -> bool {
        matches!(self, Dims::Experts(_) | Dims::Beside(_))
    }

    /// Adds what it keeps of a sequence to a layer's cache.
    pub(crate) fn keep(&self, cache: &mut LayerCache) {
        if let Dims::Channels(dims) = self {
            dims.keep(cache);
        }
    }

    /// Width of the middle.
    pub(crate) fn width(&self) -> usize {
        match self {
            Dims::Dense(dense) => dense.ffn,
            Dims::Experts(experts) => experts.ffn,
            Dims::Beside(beside) => beside.dense.ffn,
            Dims::Channels(dims) => dims.ffn,
        }
    }

    /// Elements of a row of each of its buffers.
    pub(crate) fn widths(&self, dim: usize) -> Vec<usize> {
        match self {
            Dims::Dense(Dense { ffn, cutoff, .. }) => vec![*ffn, *ffn, cutoff.map_or(0, |_| ffn + 1)],
            Dims::Experts(experts) => experts.widths(dim),
            Dims::Beside(beside) => beside.widths(dim),
            Dims::Channels(dims) => dims.widths().to_vec(),
        }
    }

    pub(crate) fn scratch<B: Ops>(&self, ops: &mut B, dim: usize, rows: usize) -> Scratch<B> {
        match self {
            Dims::Channels(dims) => Scratch::Channels(dims.scratch(ops, rows)),
            Dims::Dense(dense) => Scratch::Dense(dense.scratch(ops, rows)),
            Dims::Experts(experts) => Scratch::Experts(Box::new(experts.scratch(ops, dim, rows))),
            Dims::Beside(beside) => Scratch::Beside(Box::new(beside.scratch(ops, dim, rows))),
        }
    }

    pub(crate) fn load<B: Ops>(
        &self,
        w: &mut Weights<'_, B>,
        arch: &Architecture,
        config: &Config,
        i: usize,
    ) -> Result<Ffn<B>, Error> {
        let name = |rest: &str| config.name(i, rest);
        let activation = activation(w, arch, (i, w.has(&name("ffn_gate.weight"))))?;
        match *self {
            Dims::Dense(dims) => {
                let names = ["ffn_gate", "ffn_up", "ffn_down"].map(name);
                Ok(Ffn::Dense(DenseLayer::load(w, &names, dims, config.dim, activation)?))
            }
            Dims::Channels(dims) => Ok(Ffn::Channels(dims.load(w, i)?)),
            Dims::Experts(dims) => Ok(Ffn::Experts(Box::new(experts::Layer::load(w, name, dims, config, activation)?))),
            Dims::Beside(dims) => {
                Ok(Ffn::Beside(Box::new(beside::Layer::load(w, arch, dims, (config, i), activation)?)))
            }
        }
    }
}

/// The function of a layer, which may have a gate, and whether it is the clamped one.
fn activation<B: Ops>(
    w: &Weights<'_, B>,
    arch: &Architecture,
    (i, gated): (usize, bool),
) -> Result<(Unary, bool), Error> {
    match arch.activation {
        Activation::Plain(function) => Ok((function, false)),
        Activation::Named(usual) => {
            let key = format!("{}.hidden_activation", arch.name);
            match w.metadata().str(&key)? {
                None | Some("gelu" | "geglu") => Ok((usual, false)),
                Some("silu" | "swish" | "swiglu") => Ok((Unary::Silu, false)),
                Some(other) => Err(Error::Unsupported(format!("{key}: {other} is not supported"))),
            }
        }
        Activation::GeluOrRelu => Ok((if gated { Unary::Gelu } else { Unary::Relu }, false)),
        Activation::ClampedGlu => Ok((Unary::GeluQuick, true)),
        Activation::Xielu => {
            let number = |key: &str| {
                let name = format!("xielu.{key}");
                let values = w.metadata().f32s(&name)?.ok_or_else(|| Error::MissingKey(name.clone()))?;
                values.get(i).copied().ok_or_else(|| Error::BadValue {
                    key: name.clone(),
                    expected: "a number for each layer".into(),
                    got: values.len().to_string(),
                })
            };
            let (negative, positive) = (number("alpha_n")?, number("alpha_p")?);
            let (beta, eps) = (number("beta")?, number("eps")?);
            // The file has the numbers before they are made positive.
            let softplus = |x: f32| Unary::Softplus.at(x.into()) as f32;
            let (negative, positive) = (beta + softplus(negative), softplus(positive));
            Ok((Unary::Xielu { negative, positive, beta, eps }, false))
        }
    }
}

impl Dense {
    pub(crate) fn scratch<B: Ops>(&self, ops: &mut B, rows: usize) -> DenseScratch<B> {
        let cut = self.cutoff.map(|_| sparse::Scratch::new(ops, rows, self.ffn));
        DenseScratch { gate: ops.buffer(rows, self.ffn), up: ops.buffer(rows, self.ffn), cut }
    }
}

impl<B: Ops> DenseLayer<B> {
    pub(crate) fn load(
        w: &mut Weights<'_, B>,
        [gate, up, down]: &[String; 3],
        Dense { ffn, gated, cutoff }: Dense,
        dim: usize,
        (activation, clamped): (Unary, bool),
    ) -> Result<DenseLayer<B>, Error> {
        let load = |w: &mut _, name, cols, rows| Linear::load(w, name, cols, rows)?.scaled(w, name);
        let (gate, up) = match gated {
            Gated::No => (None, load(w, up, dim, ffn)?),
            Gated::Own => (Some(load(w, gate, dim, ffn)?), load(w, up, dim, ffn)?),
            Gated::Fused => {
                let part = |w: &mut _, range| Linear::part(w, up, (dim, 2 * ffn), range)?.scaled(w, up);
                (Some(part(w, 0..ffn)?), part(w, ffn..2 * ffn)?)
            }
        };
        let (down, cutoff) = (load(w, down, ffn, dim)?, cutoff.map(|cutoff| (cutoff, ffn)));
        Ok(DenseLayer { gate, up, down, activation, clamped, cutoff })
    }

    /// `out` is what it makes of `h`.
    pub(crate) fn to<P: Tap<B>>(
        &self,
        at: &mut At<'_, '_, B, P>,
        s: &mut DenseScratch<B>,
        h: &B::Buf,
        out: &mut B::Buf,
    ) {
        let middle = self.middle(at, s, h);
        self.down.apply(at.ops, out, middle);
    }

    /// Leaves what it makes of `h`.
    fn leave<P: Tap<B>>(&self, at: &mut At<'_, '_, B, P>, s: &mut DenseScratch<B>, h: &B::Buf, out: Out<'_, B>) {
        if let (Some(weights), To::Stream, false) = (self.swiglu(), out.to, P::LOOKS) {
            return at.ops.gated_add(out.x, h, weights, [&mut s.gate, &mut s.up, out.y]);
        }
        let middle = self.middle(at, s, h);
        self.down.leave(at.ops, middle, out);
    }

    /// The matrices, where it is nothing but `down @ (silu(gate @ h) * (up @ h))`.
    fn swiglu(&self) -> Option<[&B::Weight; 3]> {
        let gate = self.gate.as_ref().filter(|_| self.activation == Unary::Silu && self.cutoff.is_none())?;
        Some([gate.alone()?, self.up.alone()?, self.down.alone()?])
    }

    /// `f(h @ gate) * (h @ up)`, or `f(h @ up)`, in the first buffer given.
    fn middle<'s, P: Tap<B>>(&self, at: &mut At<'_, '_, B, P>, s: &'s mut DenseScratch<B>, h: &B::Buf) -> &'s B::Buf {
        let Some(gate) = &self.gate else {
            self.up.apply(at.ops, &mut s.up, h);
            at.tap("ffn_up", &s.up);
            if let (Some(cutoff), Some(cut)) = (self.cutoff, &mut s.cut) {
                sparse::cut(at.ops, cut, &mut s.up, cutoff);
            }
            at.ops.unary(&mut s.up, self.activation);
            at.tap("ffn_act", &s.up);
            return &s.up;
        };
        at.ops.matmul2((&mut s.gate, &gate.weight), (&mut s.up, &self.up.weight), h);
        gate.finish(at.ops, &mut s.gate);
        self.up.finish(at.ops, &mut s.up);
        at.tap("ffn_gate", &s.gate);
        at.tap("ffn_up", &s.up);
        if let (Some(cutoff), Some(cut)) = (self.cutoff, &mut s.cut) {
            sparse::cut(at.ops, cut, &mut s.gate, cutoff);
        }
        activate(at.ops, &mut s.gate, &mut s.up, (self.activation, self.clamped));
        let name = if self.activation == Unary::Silu { "ffn_swiglu" } else { "ffn_gate_par" };
        at.tap(name, &s.gate);
        &s.gate
    }
}

/// `gate = f(gate) * up`.
pub(crate) fn activate<B: Ops>(ops: &mut B, gate: &mut B::Buf, up: &mut B::Buf, (activation, clamped): (Unary, bool)) {
    if activation == Unary::Silu {
        return ops.swiglu(gate, up);
    }
    if clamped {
        ops.unary(gate, Unary::Clamp { low: f32::NEG_INFINITY, high: 7.0 });
        ops.unary(up, Unary::Clamp { low: -7.0, high: 7.0 });
        ops.unary(up, Unary::Affine { scale: 1.0, offset: 1.0 });
    }
    ops.unary(gate, activation);
    ops.mul(gate, up);
}

impl<B: Ops> Ffn<B> {
    /// Runs on `h`, the normed stream, and leaves the result in `out`.
    pub(crate) fn run<P: Tap<B>>(&self, at: &mut At<'_, '_, B, P>, s: &mut Scratch<B>, h: &B::Buf, out: Out<'_, B>) {
        match (self, s) {
            (Ffn::Dense(layer), Scratch::Dense(s)) => layer.leave(at, s, h, out),
            (Ffn::Experts(layer), Scratch::Experts(s)) => layer.run(at, s, h, out),
            (Ffn::Beside(layer), Scratch::Beside(s)) => layer.run(at, s, h, out),
            (Ffn::Channels(layer), Scratch::Channels(s)) => layer.run(at, s, h, out),
            _ => unreachable!("scratch was made for the layer's own dimensions"),
        }
    }
}
