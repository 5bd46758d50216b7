//! A second way around attention: the normed stream, and what two narrow matrices make of it (Menghani et al. 2024, LAuReL; Gemma
//! 3n).

use std::f32::consts::FRAC_1_SQRT_2;

use candor_ops::{Norm, NormKind, Ops, Tap, Unary};

use crate::{Error, config::Config, linear::Linear, mixer::At, norm::Normed, weights::Weights};

/// The weights of one.
pub(crate) struct Laurel<B: Ops> {
    left: Linear<B>,  // [R, D]
    right: Linear<B>, // [D, R]
    norm: Normed<B>,  // [D]
}

impl<B: Ops> Laurel<B> {
    pub(crate) fn load(w: &mut Weights<'_, B>, config: &Config, rank: usize, i: usize) -> Result<Laurel<B>, Error> {
        let norm = Norm { kind: NormKind::Rms, run: config.dim, eps: config.eps };
        Ok(Laurel {
            left: Linear::load(w, &config.name(i, "laurel_l"), config.dim, rank)?,
            right: Linear::load(w, &config.name(i, "laurel_r"), rank, config.dim)?,
            norm: Normed::load(w, &config.name(i, "laurel_post_norm"), norm)?,
        })
    }

    /// `x = (x + h + norm(h @ left @ right)) / sqrt(2)`, where `h` is what attention has read; `narrow` is room, `[T, R]`, as `y`
    /// is, `[T, D]`.
    pub(crate) fn run<P: Tap<B>>(
        &self,
        at: &mut At<'_, '_, B, P>,
        narrow: &mut B::Buf,
        h: &B::Buf,
        (x, y): (&mut B::Buf, &mut B::Buf),
    ) {
        self.left.apply(at.ops, narrow, h);
        self.right.apply(at.ops, y, narrow);
        self.norm.within(at.ops, y);
        at.ops.add(y, h);
        at.tap("laurel_out", y);
        at.ops.add(x, y);
        at.ops.unary(x, Unary::scale(FRAC_1_SQRT_2));
        at.tap("attn_laurel", x);
    }
}
