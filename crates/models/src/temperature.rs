//! Queries that grow with their position ([`AttentionTemperature`]): the numbers in the metadata, and the table of factors.

use std::ops::RangeInclusive;

use candor_ops::{Columns, Ops, Step, Unary};

use crate::{Error, arch::AttentionTemperature, keys::Keys, weights::Weights};

/// Positions that there are factors for: at least those of half a megabyte of them, at most a million. Only Llama 4 was trained
/// on longer contexts, and caches for them fit into no machine.
const POSITIONS: RangeInclusive<usize> = 1 << 17..=1 << 20;

/// What the metadata says: steps are as long as it says, or as the context that the model was first trained on.
pub(crate) fn of(keys: &Keys<'_>, original_context: usize) -> Result<Option<AttentionTemperature>, Error> {
    const SCALE: &str = "attention.temperature_scale";
    let Some(scale) = keys.float(SCALE)?.filter(|&scale| scale != 0.0) else { return Ok(None) };
    let every = keys.number("attention.temperature_length")?.unwrap_or(original_context);
    if every == 0 {
        return Err(keys.bad("rope.scaling.original_context_length", "a positive number", 0));
    }
    Ok(Some(AttentionTemperature { every, scale, offset: 0, unrotated: false }))
}

/// How many positions there are factors for.
pub(crate) fn positions(context: usize) -> usize {
    context.clamp(*POSITIONS.start(), *POSITIONS.end())
}

/// The factors of all positions, `[positions, 1]`.
pub(crate) fn table<B: Ops>(
    temperature: &AttentionTemperature,
    w: &mut Weights<'_, B>,
    context: usize,
) -> Result<B::Weight, Error> {
    let AttentionTemperature { every, scale, offset, .. } = *temperature;
    let factor = |position: usize| 1.0 + f64::from(scale) * (((position + offset) / every) as f64).ln_1p();
    let factors: Vec<f32> = (0..positions(context)).map(|position| factor(position) as f32).collect();
    w.made("attention.temperature[positions]", (1, factors.len()), &factors)
}

/// Multiplies queries `[T, H*E]` by their positions' factors; `factor` is room, `[T, 1]`.
pub(crate) fn grow<B: Ops>(ops: &mut B, q: &mut B::Buf, table: &B::Weight, factor: &mut B::Buf, step: &Step) {
    ops.copy(factor, q, Columns::run(1, 0, 0));
    ops.unary(factor, Unary::scale(0.0));
    ops.add_positions(factor, table, step);
    ops.mul_groups(q, factor);
}
