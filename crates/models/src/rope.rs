//! Rotary frequencies from a file's metadata: base, linear and YaRN scaling, and per-pair factors.

use std::f64::consts::PI;

use candor_gguf::Metadata;
use candor_ops::{Pairing, Rope};

use crate::Error;

/// YaRN's numbers (Peng et al. 2023, sections 3.2 to 3.4), with llama.cpp's keys and defaults.
struct Yarn {
    factor: f64,
    original_context: f64,
    beta_fast: f64,
    beta_slow: f64,
    attention_factor: f64,
}

/// The rotation of heads of which `dims` elements turn. `factors` are `rope_freqs.weight`: divisors per pair.
///
/// # Errors
/// If the scaling type is unknown or a number makes no sense.
pub(crate) fn from_metadata(
    metadata: &Metadata,
    arch: &str,
    pairing: Pairing,
    dims: usize,
    context: u32,
    factors: Option<&[f32]>,
) -> Result<Rope, Error> {
    let number = |key: &str| metadata.f32(&format!("{arch}.{key}")).map(|value| value.map(f64::from));
    let base = number("rope.freq_base")?.unwrap_or(10_000.0);
    if !(base.is_finite() && base > 1.0) {
        return Err(bad(arch, "rope.freq_base", "a number above 1", base));
    }
    let factor = match number("rope.scaling.factor")? {
        Some(factor) => factor,
        None => number("rope.scale_linear")?.unwrap_or(1.0),
    };
    // llama.cpp takes 0 as "not scaled".
    let factor = if factor == 0.0 { 1.0 } else { factor };
    if !(factor.is_finite() && factor > 0.0) {
        return Err(bad(arch, "rope.scaling.factor", "a positive number", factor));
    }
    let mut rope = Rope {
        pairing,
        frequencies: (0..dims / 2).map(|pair| base.powf(-2.0 * pair as f64 / dims as f64)).collect(),
        magnitude: 1.0,
    };
    if let Some(factors) = factors {
        for (frequency, &factor) in rope.frequencies.iter_mut().zip(factors) {
            *frequency /= f64::from(factor);
        }
    }
    let kind_key = format!("{arch}.rope.scaling.type");
    // Files older than the type key say only the factor, and mean linear scaling.
    match metadata.str(&kind_key)?.unwrap_or("linear") {
        "none" => {}
        "linear" => rope.frequencies.iter_mut().for_each(|frequency| *frequency /= factor),
        "yarn" => {
            let original = metadata.u32(&format!("{arch}.rope.scaling.original_context_length"))?;
            let yarn = Yarn {
                factor,
                original_context: f64::from(original.unwrap_or(context)),
                beta_fast: number("rope.scaling.yarn_beta_fast")?.unwrap_or(32.0),
                beta_slow: number("rope.scaling.yarn_beta_slow")?.unwrap_or(1.0),
                attention_factor: number("rope.scaling.attn_factor")?.unwrap_or(1.0),
            };
            yarn.scale(&mut rope, base, dims);
        }
        other => {
            return Err(Error::Unsupported(format!("{kind_key}: rope scaling {other} is not supported")));
        }
    }
    Ok(rope)
}

impl Yarn {
    /// Fast pairs keep their frequency, slow ones are interpolated by the factor, a ramp lies between.
    fn scale(&self, rope: &mut Rope, base: f64, dims: usize) {
        // The pair that makes `turns` full turns within the original context.
        let pair_of = |turns: f64| dims as f64 * (self.original_context / (turns * 2.0 * PI)).ln() / (2.0 * base.ln());
        let low = pair_of(self.beta_fast).floor().max(0.0);
        let high = pair_of(self.beta_slow).ceil().min(dims as f64 - 1.0);
        for (pair, frequency) in rope.frequencies.iter_mut().enumerate() {
            let ramp = ((pair as f64 - low) / (high - low).max(0.001)).clamp(0.0, 1.0);
            *frequency = *frequency * (1.0 - ramp) + *frequency / self.factor * ramp;
        }
        rope.magnitude = self.attention_factor * (1.0 + 0.1 * self.factor.ln());
    }
}

fn bad(arch: &str, key: &str, expected: &str, got: f64) -> Error {
    Error::BadValue { key: format!("{arch}.{key}"), expected: expected.into(), got: got.to_string() }
}
