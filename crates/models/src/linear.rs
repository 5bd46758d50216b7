//! A matrix with its bias.

use std::ops::Range;

use candor_ops::Ops;

use crate::{Error, weights::Weights};

/// A product, and a vector added to it where the file has one.
pub(crate) struct Linear<B: Ops> {
    pub(crate) weight: B::Weight,       // [out, in]
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
        Ok(Linear { weight, bias: w.optional(&format!("{name}.bias"), rows)? })
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
        Ok(Linear { weight, bias })
    }

    /// `out = w @ x + b`.
    pub(crate) fn apply(&self, ops: &mut B, out: &mut B::Buf, x: &B::Buf) {
        ops.matmul(out, x, &self.weight);
        self.add_bias(ops, out);
    }

    /// Adds the bias of a product that was made elsewhere.
    pub(crate) fn add_bias(&self, ops: &mut B, out: &mut B::Buf) {
        if let Some(bias) = &self.bias {
            ops.add_bias(out, bias);
        }
    }

    /// The last product of half a layer.
    pub(crate) fn leave(&self, ops: &mut B, h: &B::Buf, out: Out<'_, B>) {
        match out.to {
            To::Stream => {
                ops.matmul_add(out.x, h, &self.weight, out.y);
                self.add_bias(ops, out.x);
            }
            To::Room => self.apply(ops, out.y, h),
        }
    }
}
