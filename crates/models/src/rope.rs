//! What positions do to queries and keys, from a file's metadata: rotary frequencies with base, linear and YaRN scaling and
//! per-pair factors, and the growth of queries.

use std::f64::consts::PI;

use candor_ops::{Ops, Pairing, Rope};

use crate::{
    Error,
    arch::{Architecture, Rotation},
    block::{Block, Rotary},
    config::Config,
    keys::Keys,
    mixer::{self, mla},
    temperature,
    weights::Weights,
};

/// What becomes of queries and keys by their positions, in the layers of a model.
pub(crate) struct Positions<B: Ops> {
    global: Option<B::Rope>,
    /// The same for caches longer than what the model was first trained on, where that differs.
    far: Option<B::Rope>,
    window: Option<B::Rope>,
    /// What queries are multiplied by, `[positions, 1]`, where they grow.
    temperature: Option<B::Weight>,
}

impl<B: Ops> Positions<B> {
    /// Those of a layer: how it rotates, and what its queries are multiplied by.
    pub(crate) fn of(&self, block: &Block, far: bool) -> (Option<&B::Rope>, Option<&B::Weight>) {
        let rope = match block.rotation {
            None => None,
            Some(Rotary::Global) => self.far.as_ref().filter(|_| far).or(self.global.as_ref()),
            Some(Rotary::Window) => self.window.as_ref(),
        };
        (rope, self.temperature.as_ref().filter(|_| block.grows))
    }
}

/// YaRN's numbers (Peng et al. 2023, sections 3.2 to 3.4), with llama.cpp's keys and defaults.
struct Yarn {
    factor: f64,
    original_context: f64,
    beta_fast: f64,
    beta_slow: f64,
    attention_factor: f64,
    /// Share of its own frequency that a fast pair keeps.
    kept: f64,
    /// Whether the ramp begins and ends at whole pairs.
    whole_pairs: bool,
}

/// The base of layers with a window.
const SWA: &str = "rope.freq_base_swa";

/// What rotated queries and keys are multiplied with.
const ATTENTION: &str = "rope.scaling.attn_factor";

/// What llama.cpp's flags ask for: how much of their own frequencies fast pairs keep, and what rotated queries and keys are
/// multiplied with where they keep nothing of them.
const KEPT: &str = "rope.scaling.yarn_ext_factor";
const MAGNITUDE: &str = "rope.scaling.yarn_attn_factor";

/// What the model's layers ask for.
///
/// # Errors
/// If the scaling type is unknown or a number makes no sense.
pub(crate) fn of<B: Ops>(w: &mut Weights<'_, B>, arch: &Architecture, config: &Config) -> Result<Positions<B>, Error> {
    let temperature = config.temperature.map(|growth| temperature::table(&growth, w, config.context)).transpose()?;
    let mut positions = Positions { global: None, far: None, window: None, temperature };
    let keys = Keys { gguf: w.gguf(), arch };
    let widest = config.mixers.iter().filter_map(|dims| dims.rotated()).max_by_key(|heads| heads.head_dim);
    let Some(heads) = widest else { return Ok(positions) };
    let asked = |rotary| config.blocks.iter().any(|block| block.rotation == Some(rotary));
    let dims = keys.number("rope.dimension_count")?.unwrap_or(heads.dims);
    if dims > heads.head_dim || dims % 2 != 0 {
        return Err(keys.bad("rope.dimension_count", &format!("even, at most {}", heads.head_dim), dims));
    }
    // All are taken, so that none is left over; those of long contexts may be there twice.
    let [factors, short, long] = ["rope_freqs.weight", "rope_factors_short.weight", "rope_factors_long.weight"]
        .map(|name| w.numbers(name, dims / 2));
    let (factors, short, long) = (factors?, short?, long?);
    let near = factors.as_deref().or(short.as_deref());
    let global = |factors: Option<&[f32]>| Source { keys, config, dims }.global(factors);
    if asked(Rotary::Global) {
        positions.global = Some(w.rope(global(near)?));
        let another = |swa: &f32| f64::from(*swa) != base(&keys).unwrap_or(0.0);
        let windows = config.window.is_some() && !matches!(arch.rotation, Rotation::WindowsUnscaled(_));
        if let Some(swa) = keys.float(SWA)?.filter(another).filter(|_| windows) {
            return Err(keys.bad(SWA, "what rope.freq_base is", swa));
        }
        positions.far = long.as_deref().map(|long| global(Some(long))).transpose()?.map(|rope| w.rope(rope));
    }
    if asked(Rotary::Window) {
        let dims = keys.number("rope.dimension_count_swa")?.unwrap_or(dims);
        let Rotation::WindowsUnscaled(default) = arch.rotation else { return Ok(positions) };
        let base = match keys.float(SWA)?.or(default) {
            Some(base) => f64::from(base),
            None => base(&keys)?,
        };
        let mut rope = plain(pairing(&keys)?, base, dims);
        if default.is_some() {
            rope.magnitude = keys.float(ATTENTION)?.map_or(1.0, f64::from);
        }
        if kept(&keys)? == 0.0 {
            rope.magnitude *= magnitude(&keys)?;
        }
        positions.window = Some(w.rope(rope));
    }
    Ok(positions)
}

/// Which elements are paired: GLM-4V's files pair others than GLM-4's, and are known by the parts of positions.
fn pairing(keys: &Keys<'_>) -> Result<Pairing, Error> {
    let sections = keys.per_layer("rope.dimension_sections", 2)?.unwrap_or_default();
    let several = sections.len() == 2 && sections.iter().all(|&pairs| pairs > 0);
    Ok(keys.arch.sectioned.filter(|_| several).unwrap_or(keys.arch.pairing))
}

/// `rope.freq_base`.
fn base(keys: &Keys<'_>) -> Result<f64, Error> {
    let base = keys.float("rope.freq_base")?.map_or(10_000.0, f64::from);
    if !(base.is_finite() && base > 1.0) {
        return Err(keys.bad("rope.freq_base", "a number above 1", base));
    }
    Ok(base)
}

/// How positions are scaled. Files older than the key say only the factor, and mean linear scaling.
fn kind<'a>(keys: &Keys<'a>) -> Result<&'a str, Error> {
    Ok(keys.gguf.metadata().str(&keys.name("rope.scaling.type"))?.unwrap_or("linear"))
}

/// The share of their own frequencies that fast pairs keep.
fn kept(keys: &Keys<'_>) -> Result<f64, Error> {
    let asked = keys.replaced(KEPT)?.filter(|&share| share >= 0.0).map(f64::from);
    Ok(asked.unwrap_or(if kind(keys)? == "yarn" { 1.0 } else { 0.0 }))
}

/// What was asked for that rotated queries and keys are multiplied with, where pairs keep nothing.
fn magnitude(keys: &Keys<'_>) -> Result<f64, Error> {
    Ok(keys.replaced(MAGNITUDE)?.filter(|&magnitude| magnitude >= 0.0).map_or(1.0, f64::from))
}

/// The rotation without scaling.
fn plain(pairing: Pairing, base: f64, dims: usize) -> Rope {
    let frequencies = (0..dims / 2).map(|pair| base.powf(-2.0 * pair as f64 / dims as f64)).collect();
    Rope { pairing, frequencies, magnitude: 1.0 }
}

/// What a rotation is read from.
struct Source<'a> {
    keys: Keys<'a>,
    config: &'a Config,
    dims: usize,
}

impl Source<'_> {
    /// The usual rotation. `factors` are divisors per pair.
    fn global(&self, factors: Option<&[f32]>) -> Result<Rope, Error> {
        let Source { keys, config, dims } = *self;
        let number = |key: &str| keys.float(key).map(|value| value.map(f64::from));
        let base = base(&keys)?;
        let factor = match number("rope.scaling.factor")? {
            Some(factor) => factor,
            None => number("rope.scale_linear")?.unwrap_or(1.0),
        };
        // llama.cpp takes 0 as "not scaled".
        let factor = if factor == 0.0 { 1.0 } else { factor };
        if !(factor.is_finite() && factor > 0.0) {
            return Err(keys.bad("rope.scaling.factor", "a positive number", factor));
        }
        let mut rope = plain(pairing(&keys)?, base, dims);
        for (frequency, &factor) in rope.frequencies.iter_mut().zip(factors.unwrap_or_default()) {
            *frequency /= f64::from(factor);
        }
        let attention_factor = number(ATTENTION)?.unwrap_or(1.0);
        rope.magnitude = attention_factor;
        let kind = kind(&keys)?;
        if !matches!(kind, "none" | "linear" | "yarn") && (kind != "longrope" || factors.is_none()) {
            let key = keys.name("rope.scaling.type");
            return Err(Error::Unsupported(format!("{key}: rope scaling {kind} is not supported")));
        }
        // Latent attention has its part of the scaling in its scores.
        let latent = config.mixers.iter().any(|dims| matches!(dims, mixer::Dims::Mla(_)));
        for key in [KEPT, MAGNITUDE] {
            if latent && keys.replaced(key)?.is_some() {
                let key = keys.name(key);
                return Err(Error::Unsupported(format!("{key}: it is not supported with latent attention")));
            }
        }
        let (factor, kept) = (if kind == "none" { 1.0 } else { factor }, kept(&keys)?);
        if kept == 0.0 {
            rope.frequencies.iter_mut().for_each(|frequency| *frequency /= factor);
            rope.magnitude *= magnitude(&keys)?;
            return Ok(rope);
        }
        let beta = |key: &str| Ok::<_, Error>(keys.float(key)?.or(keys.replaced(key)?).map(f64::from));
        let yarn = Yarn {
            factor,
            original_context: config.original_context as f64,
            beta_fast: beta("rope.scaling.yarn_beta_fast")?.unwrap_or(32.0),
            beta_slow: beta("rope.scaling.yarn_beta_slow")?.unwrap_or(1.0),
            attention_factor,
            kept,
            whole_pairs: config.rounds_yarn.unwrap_or(true),
        };
        yarn.scale(&mut rope, base, dims);
        // Elsewhere `mscale_all_dim` takes it back.
        if latent && keys.reads(mla::MULTIPLIER) {
            rope.magnitude = attention_factor;
        } else if let Some(multiplier) = number(mla::MULTIPLIER)? {
            rope.magnitude /= 1.0 + 0.1 * multiplier * factor.max(1.0).ln();
        }
        Ok(rope)
    }
}

impl Yarn {
    /// Fast pairs keep their frequency, slow ones are interpolated by the factor, a ramp lies between.
    fn scale(&self, rope: &mut Rope, base: f64, dims: usize) {
        // The pair that makes `turns` full turns within the original context.
        let pair_of = |turns: f64| dims as f64 * (self.original_context / (turns * 2.0 * PI)).ln() / (2.0 * base.ln());
        let (mut low, mut high) = (pair_of(self.beta_fast), pair_of(self.beta_slow));
        if self.whole_pairs {
            (low, high) = (low.floor(), high.ceil());
        }
        let (low, high) = (low.max(0.0), high.min(dims as f64 - 1.0));
        for (pair, frequency) in rope.frequencies.iter_mut().enumerate() {
            let ramp = ((pair as f64 - low) / (high - low).max(0.001)).clamp(0.0, 1.0);
            let ramp = if self.kept == 1.0 { ramp } else { 1.0 - (1.0 - ramp) * self.kept };
            *frequency = *frequency * (1.0 - ramp) + *frequency / self.factor * ramp;
        }
        rope.magnitude = self.attention_factor * (1.0 + 0.1 * self.factor.max(1.0).ln());
    }
}
