//! RWKV's look at the row before: `x + (before - x) * w`.

use candor_ops::{Columns, Ops, Step};

use crate::{Error, weights::Weights};

/// A convolution that gives the row before.
pub(crate) struct Shift<B: Ops> {
    taps: B::Weight, // [D, 2]
    width: usize,
}

impl<B: Ops> Shift<B> {
    pub(crate) fn load(w: &mut Weights<'_, B>, width: usize) -> Result<Shift<B>, Error> {
        let taps: Vec<f32> = std::iter::repeat_n([1.0, 0.0], width).flatten().collect();
        Ok(Shift { taps: w.made("token shift", (2, width), &taps)?, width })
    }

    /// `out = before - x`, the row before from a state where it was of an earlier step.
    pub(crate) fn difference(
        &self,
        ops: &mut B,
        (out, room): (&mut B::Buf, &mut B::Buf),
        x: &B::Buf,
        (kv, place): (&mut B::Kv, (usize, usize)),
        step: &Step,
    ) {
        ops.conv(out, kv, place, x, &self.taps, step);
        ops.copy(room, x, Columns::run(self.width, 0, 0));
        ops.unary(room, candor_ops::Unary::scale(-1.0));
        ops.add(out, room);
    }

    /// `out = x + difference * w`
    pub(crate) fn mix(&self, ops: &mut B, out: &mut B::Buf, x: &B::Buf, difference: &B::Buf, w: &B::Weight) {
        ops.copy(out, difference, Columns::run(self.width, 0, 0));
        ops.mul_columns(out, w);
        ops.add(out, x);
    }
}
