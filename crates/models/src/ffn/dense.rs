//! A dense feed-forward: two matrices, or three where one is a gate (Shazeer 2020).

use candor_ops::{Ops, Tap, Unary};

use super::sparse;
use crate::{
    Error,
    arch::{Activation, Architecture},
    at::At,
    keys::Keys,
    linear::{Linear, Out, To},
    weights::Weights,
};

/// The dimensions of one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Dims {
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

/// The weights of one.
pub(crate) struct Layer<B: Ops> {
    gate: Option<Linear<B>>, // [F, D]
    up: Linear<B>,           // [F, D]
    down: Linear<B>,         // [D, F]
    activation: Unary,
    clamped: bool,
    cutoff: Option<(f32, usize)>, // and the width of what is cut
}

/// The values in flight.
pub(crate) struct Scratch<B: Ops> {
    gate: B::Buf, // [T, F]
    up: B::Buf,   // [T, F]
    cut: Option<sparse::Scratch<B>>,
}

impl Dims {
    /// Those of the matrices with these names, where the file has any; `width` is what the metadata says of the middle.
    pub(crate) fn of(keys: &Keys<'_>, names: &[String; 3], width: Option<usize>) -> Result<Option<Dims>, Error> {
        let names = names.each_ref().map(|name| format!("{name}.weight"));
        let [gate, up, down] = names.each_ref().map(|name| keys.gguf.tensor(name).map(|info| &info.shape));
        if [gate, up, down].iter().all(Option::is_none) {
            return Ok(None);
        }
        let there = |n: usize, shape: Option<_>| shape.ok_or_else(|| Error::MissingTensor(names[n].clone()));
        let rows = there(1, up)?.get(1).copied().unwrap_or(1) as usize;
        let cols = there(2, down)?.first().copied().unwrap_or(0) as usize;
        // Qwen 1 counts both halves.
        let ffn = width.filter(|&width| width != 0 && width != 2 * cols).unwrap_or(cols);
        let gated = match gate.is_some() {
            true => Gated::Own,
            false if rows == 2 * ffn => Gated::Fused,
            false if keys.arch.activation.opens() => return Err(Error::MissingTensor(names[0].clone())),
            false => Gated::No,
        };
        Ok(Some(Dims { ffn, gated, cutoff: None }))
    }

    /// The same with a cutoff.
    pub(crate) fn cut(self, cutoff: Option<f32>) -> Dims {
        Dims { cutoff, ..self }
    }

    pub(crate) fn scratch<B: Ops>(&self, ops: &mut B, rows: usize) -> Scratch<B> {
        let cut = self.cutoff.map(|_| sparse::Scratch::new(ops, rows, self.ffn));
        Scratch { gate: ops.buffer(rows, self.ffn), up: ops.buffer(rows, self.ffn), cut }
    }
}

impl<B: Ops> Layer<B> {
    pub(crate) fn load(
        w: &mut Weights<'_, B>,
        [gate, up, down]: &[String; 3],
        Dims { ffn, gated, cutoff }: Dims,
        dim: usize,
        (activation, clamped): (Unary, bool),
    ) -> Result<Layer<B>, Error> {
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
        Ok(Layer { gate, up, down, activation, clamped, cutoff })
    }

    /// `out` is what it makes of `h`.
    pub(crate) fn to<P: Tap<B>>(&self, at: &mut At<'_, '_, B, P>, s: &mut Scratch<B>, h: &B::Buf, out: &mut B::Buf) {
        let middle = self.middle(at, s, h);
        self.down.apply(at.ops, out, middle);
    }

    /// Leaves what it makes of `h`.
    pub(crate) fn leave<P: Tap<B>>(&self, at: &mut At<'_, '_, B, P>, s: &mut Scratch<B>, h: &B::Buf, out: Out<'_, B>) {
        if let (Some(weights), To::Stream, false) = (self.swiglu(), out.to, P::LOOKS) {
            return at.ops.gated_add(out.x, h, weights, [&mut s.gate, &mut s.up, out.y]);
        }
        let middle = self.middle(at, s, h);
        self.down.leave_as(at, "ffn_out", middle, out);
    }

    /// The matrices, where it is nothing but `down @ (silu(gate @ h) * (up @ h))`.
    fn swiglu(&self) -> Option<[&B::Weight; 3]> {
        let gate = self.gate.as_ref().filter(|_| self.activation == Unary::Silu && self.cutoff.is_none())?;
        Some([gate.alone()?, self.up.alone()?, self.down.alone()?])
    }

    /// `f(h @ gate) * (h @ up)`, or `f(h @ up)`, in the first buffer given.
    fn middle<'s, P: Tap<B>>(&self, at: &mut At<'_, '_, B, P>, s: &'s mut Scratch<B>, h: &B::Buf) -> &'s B::Buf {
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

/// The function of a layer, which may have a gate, and whether it is the clamped one.
pub(crate) fn activation<B: Ops>(
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
