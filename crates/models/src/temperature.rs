//! Queries that grow with their position, so that attention over a long context stays as sharp as over a short one (Nakanishi
//! 2025; Llama 4 and Mistral 3 in steps of a number of positions).

use std::ops::RangeInclusive;

use candor_ops::{Columns, Ops, Step, Unary};

use crate::{Error, config::Config, keys::Keys, weights::Weights};

/// By how much queries grow: `1 + scale * ln(1 + floor((position + offset) / every))`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Temperature {
    /// Positions of a step.
    pub every: usize,
    /// Factor on the logarithm.
    pub scale: f32,
    /// Added to positions.
    pub offset: usize,
    /// Only in layers that do not rotate.
    pub unrotated: bool,
}

/// Positions that there are factors for: at least those of half a megabyte of them, at most a million. Longer contexts have
/// been trained by nobody but Llama 4's makers, whose caches for them fit into no machine.
const POSITIONS: RangeInclusive<usize> = 1 << 17..=1 << 20;

impl Temperature {
    /// What the metadata says: steps are as long as it says, or as the context that the model was first trained on.
    pub(crate) fn of(keys: &Keys<'_>, original_context: usize) -> Result<Option<Temperature>, Error> {
        const SCALE: &str = "attention.temperature_scale";
        let Some(scale) = keys.float(SCALE)?.filter(|&scale| scale != 0.0) else { return Ok(None) };
        let every = keys.number("attention.temperature_length")?.unwrap_or(original_context);
        if every == 0 {
            return Err(keys.bad("rope.scaling.original_context_length", "a positive number", 0));
        }
        Ok(Some(Temperature { every, scale, offset: 0, unrotated: false }))
    }

    /// The factor of a position.
    pub(crate) fn at(&self, position: usize) -> f64 {
        let steps = (position + self.offset) / self.every;
        1.0 + f64::from(self.scale) * (steps as f64).ln_1p()
    }

    /// How many positions there are factors for.
    pub(crate) fn positions(context: usize) -> usize {
        context.clamp(*POSITIONS.start(), *POSITIONS.end())
    }

    /// The factors of all positions, `[positions, 1]`.
    pub(crate) fn table<B: Ops>(&self, w: &mut Weights<'_, B>, config: &Config) -> Result<B::Weight, Error> {
        let positions = Temperature::positions(config.context);
        let factors: Vec<f32> = (0..positions).map(|position| self.at(position) as f32).collect();
        w.made("attention.temperature[positions]", (1, positions), &factors)
    }
}

/// Multiplies queries `[T, H*E]` by their positions' factors; `factor` is room, `[T, 1]`.
pub(crate) fn grow<B: Ops>(ops: &mut B, q: &mut B::Buf, table: &B::Weight, factor: &mut B::Buf, step: &Step) {
    ops.copy(factor, q, Columns::run(1, 0, 0));
    ops.unary(factor, Unary::scale(0.0));
    ops.add_positions(factor, table, step);
    ops.mul_groups(q, factor);
}
