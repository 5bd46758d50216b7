//! A second way around attention: the normed stream, and what two narrow matrices make of it (Menghani et al. 2024, LAuReL; Gemma
//! 3n).

use std::f32::consts::FRAC_1_SQRT_2;

use candor_ops::{Heads, Norm, NormKind, Ops, Tap, Unary};

use super::hooks::Extra;
use crate::{
    Error,
    arch::Architecture,
    at::{At, Stream},
    common::Common,
    keys::Keys,
    linear::Linear,
    norm::Normed,
    weights::Weights,
};

/// The rank `R` of the narrow matrices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Dims(usize);

/// The weights of a layer.
pub(crate) struct Layer<B: Ops> {
    left: Linear<B>,  // [R, D]
    right: Linear<B>, // [D, R]
    norm: Normed<B>,  // [D]
}

/// The values in flight.
pub(crate) struct Scratch<B: Ops> {
    narrow: B::Buf, // [T, R]
}

impl Extra for Dims {
    type Ends<B: Ops> = ();
    type Layer<B: Ops> = Layer<B>;
    type Scratch<B: Ops> = Scratch<B>;

    fn of(keys: &Keys<'_>, common: &Common, _: &Heads) -> Result<Option<Dims>, Error> {
        let left = keys.gguf.tensor(&common.name(0, "laurel_l.weight"));
        Ok(left.and_then(|info| info.shape.get(1)).map(|&rank| Dims(rank as usize)))
    }

    fn scratch<B: Ops>(&self, ops: &mut B, _: &Common, rows: usize) -> Scratch<B> {
        Scratch { narrow: ops.buffer(rows, self.0) }
    }

    fn ends<B: Ops>(&self, _: &mut Weights<'_, B>, _: &Common) -> Result<(), Error> {
        Ok(())
    }

    fn layer<B: Ops>(
        &self,
        w: &mut Weights<'_, B>,
        _: &Architecture,
        common: &Common,
        i: usize,
    ) -> Result<Layer<B>, Error> {
        let norm = Norm { kind: NormKind::Rms, run: common.dim, eps: common.eps };
        Ok(Layer {
            left: Linear::load(w, &common.name(i, "laurel_l"), common.dim, self.0)?,
            right: Linear::load(w, &common.name(i, "laurel_r"), self.0, common.dim)?,
            norm: Normed::load(w, &common.name(i, "laurel_post_norm"), norm)?,
        })
    }

    /// `x = (x + h + norm(h @ left @ right)) / sqrt(2)`, where `h` is what attention has read.
    fn mixed<B: Ops, P: Tap<B>>(
        layer: &Layer<B>,
        at: &mut At<'_, '_, B, P>,
        s: &mut Scratch<B>,
        Stream { x, h, y }: Stream<'_, B>,
    ) {
        layer.left.apply(at.ops, &mut s.narrow, h);
        layer.right.apply(at.ops, y, &s.narrow);
        layer.norm.within(at.ops, y);
        at.ops.add(y, h);
        at.tap("laurel_out", y);
        at.ops.add(x, y);
        at.ops.unary(x, Unary::scale(FRAC_1_SQRT_2));
        at.tap("attn_laurel", x);
    }
}
