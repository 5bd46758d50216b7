//! A matrix with its scale and its bias.

use std::ops::Range;

use candor_ops::{Ops, Tap, Unary};

use crate::{Error, arch::Residual, at::At, weights::Weights};

/// A product, times a number and with a vector added to it where the file has those.
pub(crate) struct Linear<B: Ops> {
    pub(crate) weight: B::Weight, // [out, in]
    scale: Option<f32>,
    pub(crate) bias: Option<B::Weight>, // [out]
}

/// Where the result of half a layer goes.
pub(crate) struct Out<'a, B: Ops> {
    /// The residual stream, `[T, D]`.
    pub(crate) x: &'a mut B::Buf,
    /// Room for the result alone, `[T, D]`.
    pub(crate) y: &'a mut B::Buf,
    pub(crate) to: To,
}

impl<B: Ops> Out<'_, B> {
    /// Adds the result, which is in the room, to the stream where it belongs there.
    pub(crate) fn add(self, ops: &mut B) {
        if self.to == To::Stream {
            ops.add(self.x, self.y);
        }
    }
}

/// Whether a result is added at once.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum To {
    /// To the stream; the room is undefined afterwards.
    Stream,
    /// It stays in the room of its own, and the stream as it is.
    Room,
}

impl<B: Ops> Linear<B> {
    /// The matrix `name` with `cols` inputs and `rows` outputs.
    pub(crate) fn load(w: &mut Weights<'_, B>, name: &str, cols: usize, rows: usize) -> Result<Linear<B>, Error> {
        let weight = w.matrix(&format!("{name}.weight"), cols, rows)?;
        Ok(Linear { weight, scale: None, bias: w.optional(&format!("{name}.bias"), rows)? })
    }

    /// The same with the number that NVFP4's matrices are multiplied with, `name.scale`, where the file has it. Callers
    /// that multiply with `weight` alone must call `finish`, or `rescale` and what adds the bias.
    pub(crate) fn scaled(mut self, w: &mut Weights<'_, B>, name: &str) -> Result<Linear<B>, Error> {
        self.scale = w.numbers(&format!("{name}.scale"), 1)?.map(|scale| scale[0]);
        // For those who round inputs to four bits.
        w.leave(&format!("{name}.input_scale"));
        Ok(self)
    }

    /// Some outputs of the matrix `name`, which has `rows`.
    pub(crate) fn part(
        w: &mut Weights<'_, B>,
        name: &str,
        (cols, rows): (usize, usize),
        range: Range<usize>,
    ) -> Result<Linear<B>, Error> {
        let weight = w.rows(&format!("{name}.weight"), (cols, rows), range.clone())?;
        let bias = format!("{name}.bias");
        let bias = if w.has(&bias) { Some(w.elements(&bias, rows, range)?) } else { None };
        Ok(Linear { weight, scale: None, bias })
    }

    /// `out = s * (w @ x) + b`.
    pub(crate) fn apply(&self, ops: &mut B, out: &mut B::Buf, x: &B::Buf) {
        ops.matmul(out, x, &self.weight);
        self.finish(ops, out);
    }

    /// Makes the result of a product that was made elsewhere.
    pub(crate) fn finish(&self, ops: &mut B, out: &mut B::Buf) {
        self.rescale(ops, out);
        self.add_bias(ops, out);
    }

    /// Multiplies a product that was made elsewhere with its scale.
    pub(crate) fn rescale(&self, ops: &mut B, out: &mut B::Buf) {
        if let Some(scale) = self.scale {
            ops.unary(out, Unary::scale(scale));
        }
    }

    /// Adds the bias of a product that was made elsewhere.
    pub(crate) fn add_bias(&self, ops: &mut B, out: &mut B::Buf) {
        if let Some(bias) = &self.bias {
            ops.add_bias(out, bias);
        }
    }

    /// The matrix, where nothing else belongs to the product.
    pub(crate) fn alone(&self) -> Option<&B::Weight> {
        (self.scale.is_none() && self.bias.is_none()).then_some(&self.weight)
    }

    /// The last product of half a layer, which has a name.
    pub(crate) fn leave_as<P: Tap<B>>(
        &self,
        at: &mut At<'_, '_, B, P>,
        name: &'static str,
        h: &B::Buf,
        out: Out<'_, B>,
    ) {
        let scaled = self.scale.is_some();
        match out.to {
            To::Stream if scaled => {
                self.apply(at.ops, out.y, h);
                at.tap(name, out.y);
                return at.ops.add(out.x, out.y);
            }
            To::Stream if at.tap.wants(name, Some(at.layer)) => {
                // What goes into the stream is made in one with the addition: looking on changes no bit of it.
                self.apply(at.ops, out.y, h);
                at.tap(name, out.y);
            }
            To::Room => {
                self.apply(at.ops, out.y, h);
                // The layer itself shows what halves beside each other give.
                if at.common.residual != Residual::Parallel && (scaled || at.tap.wants(name, Some(at.layer))) {
                    at.tap(name, out.y);
                }
                return;
            }
            To::Stream => {}
        }
        self.leave(at.ops, h, out);
    }

    /// The last product of half a layer.
    pub(crate) fn leave(&self, ops: &mut B, h: &B::Buf, out: Out<'_, B>) {
        match out.to {
            To::Stream if self.scale.is_some() => {
                self.apply(ops, out.y, h);
                ops.add(out.x, out.y);
            }
            To::Stream => {
                ops.matmul_add(out.x, h, &self.weight, out.y);
                self.add_bias(ops, out.x);
            }
            To::Room => self.apply(ops, out.y, h),
        }
    }
}
