//! A norm with its weights.

use candor_ops::{Columns, Norm, NormKind, Ops};

use crate::{Error, weights::Weights};

/// A norm of rows, or of runs of a row.
pub(crate) struct Normed<B: Ops> {
    norm: Norm,
    weight: Option<B::Weight>, // [run], or as wide as the row
    bias: Option<B::Weight>,
}

impl<B: Ops> Normed<B> {
    /// A norm without weights.
    pub(crate) fn bare(norm: Norm) -> Normed<B> {
        Normed { norm, weight: None, bias: None }
    }

    /// A norm with these weights.
    pub(crate) fn weighed(norm: Norm, weight: B::Weight) -> Normed<B> {
        Normed { norm, weight: Some(weight), bias: None }
    }

    /// The norm `name` of rows of `norm.run`, whose weight must be there.
    pub(crate) fn load(w: &mut Weights<'_, B>, name: &str, norm: Norm) -> Result<Normed<B>, Error> {
        let weight = match w.optional(&format!("{name}.weight"), norm.run)? {
            Some(weight) => weight,
            // A converter left the suffix out.
            None if w.has(name) => w.vector(name, norm.run)?,
            None => return Err(Error::MissingTensor(format!("{name}.weight"))),
        };
        Ok(Normed { norm, weight: Some(weight), bias: w.optional(&format!("{name}.bias"), norm.run)? })
    }

    /// The norm `name` of heads of `dim` in a row of `width`, where the file has it: one weight for all heads, one for each,
    /// or a norm of the whole row.
    pub(crate) fn of_heads(
        w: &mut Weights<'_, B>,
        name: &str,
        norm: Norm,
        (dim, width): (usize, usize),
    ) -> Result<Option<Normed<B>>, Error> {
        let (weight, bias) = (format!("{name}.weight"), format!("{name}.bias"));
        let Some(shape) = w.shape(&weight) else { return Ok(None) };
        let len = shape.iter().product::<u64>() as usize;
        let run = if len == width && shape[0] as usize == width { width } else { dim };
        let len = if len == width { width } else { dim };
        let weight = Some(w.spread(&weight, len)?);
        let bias = if w.has(&bias) { Some(w.spread(&bias, len)?) } else { None };
        Ok(Some(Normed { norm: Norm { run, ..norm }, weight, bias }))
    }

    /// The norm `name` of runs, each with weights of its own, `width` together, where the file has it.
    pub(crate) fn of_runs(
        w: &mut Weights<'_, B>,
        name: &str,
        norm: Norm,
        width: usize,
    ) -> Result<Option<Normed<B>>, Error> {
        let (weight, bias) = (format!("{name}.weight"), format!("{name}.bias"));
        if !w.has(&weight) {
            return Ok(None);
        }
        let weight = Some(w.spread(&weight, width)?);
        let bias = if w.has(&bias) { Some(w.spread(&bias, width)?) } else { None };
        Ok(Some(Normed { norm, weight, bias }))
    }

    pub(crate) fn is_bare(&self) -> bool {
        self.weight.is_none()
    }

    /// `out = norm(x)`.
    pub(crate) fn to(&self, ops: &mut B, out: &mut B::Buf, x: &B::Buf, width: usize) {
        if let (NormKind::Rms, Some(weight), None) = (self.norm.kind, &self.weight, &self.bias) {
            return ops.rms_norm(out, x, weight, self.norm.eps);
        }
        ops.copy(out, x, Columns::run(width, 0, 0));
        self.within(ops, out);
    }

    /// `x = norm(x)`.
    pub(crate) fn within(&self, ops: &mut B, x: &mut B::Buf) {
        ops.norm(x, self.norm, self.weight.as_ref(), self.bias.as_ref());
    }
}
