//! How positions are rotated, instead of as the file says: llama.cpp's flags, as metadata of the file's architecture. Which keys
//! the rotation is read from is `models/rope.rs`'s affair.

use candor_gguf::{Gguf, Metadata, Value};
use candor_models::{Config, WindowRotation};

use super::OverrideError;
use crate::Error;

/// How positions are scaled for contexts that are longer than those of the training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RopeScaling {
    /// They are not.
    None,
    /// All frequencies are divided by the factor.
    Linear,
    /// Fast pairs keep their frequencies (Peng et al. 2023).
    Yarn,
}

/// How positions are rotated, instead of as the file says. `None` leaves a number to the file; so does 0, and of factors of YaRN
/// what is below 0.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct RopeOverrides {
    /// How positions are scaled.
    pub scaling: Option<RopeScaling>,
    /// The base of the frequencies.
    pub freq_base: Option<f32>,
    /// What positions are multiplied with: 0.25 makes a context four times as long.
    pub freq_scale: Option<f32>,
    /// YaRN: positions that the model was trained on.
    pub yarn_orig_ctx: Option<u32>,
    /// YaRN: the share of their own frequencies that fast pairs keep; 0 makes the scaling linear.
    pub yarn_ext_factor: Option<f32>,
    /// What rotated queries and keys are multiplied with, where the scaling is not YaRN's.
    pub yarn_attn_factor: Option<f32>,
    /// YaRN: a pair with fewer turns within the original context is slowed by the whole factor.
    pub yarn_beta_slow: Option<f32>,
    /// YaRN: a pair with more turns keeps its frequency.
    pub yarn_beta_fast: Option<f32>,
}

setters!(RopeOverrides {
    scaling: impl Into<Option<RopeScaling>>,
    freq_base: impl Into<Option<f32>>,
    freq_scale: impl Into<Option<f32>>,
    yarn_orig_ctx: impl Into<Option<u32>>,
    yarn_ext_factor: impl Into<Option<f32>>,
    yarn_attn_factor: impl Into<Option<f32>>,
    yarn_beta_slow: impl Into<Option<f32>>,
    yarn_beta_fast: impl Into<Option<f32>>,
});

const TYPE: &str = "rope.scaling.type";
const FACTOR: &str = "rope.scaling.factor";
const BASE: &str = "rope.freq_base";
const ORIGINAL: &str = "rope.scaling.original_context_length";
const CONTEXT: &str = "context_length";
const KEPT: &str = "rope.scaling.yarn_ext_factor";
const MAGNITUDE: &str = "rope.scaling.yarn_attn_factor";
const SLOW: &str = "rope.scaling.yarn_beta_slow";
const FAST: &str = "rope.scaling.yarn_beta_fast";

impl RopeScaling {
    /// Its name in files.
    fn name(self) -> &'static str {
        match self {
            RopeScaling::None => "none",
            RopeScaling::Linear => "linear",
            RopeScaling::Yarn => "yarn",
        }
    }
}

/// A file's metadata under the keys of its architecture.
struct Keys {
    metadata: Metadata,
    arch: String,
}

impl Keys {
    fn name(&self, key: &str) -> String {
        format!("{}.{key}", self.arch)
    }

    fn has(&self, key: &str) -> bool {
        self.metadata.get(&self.name(key)).is_some()
    }

    fn replace(&mut self, key: &str, value: impl Into<Value>) {
        self.metadata.replace(self.name(key), value);
    }

    /// Says what the file means without saying it, before something else would mean another thing.
    fn spell_out(&mut self, key: &str, value: impl Into<Value>) {
        if !self.has(key) {
            self.metadata.insert(self.name(key), value);
        }
    }
}

impl RopeOverrides {
    /// What was given, with their flags: 0 is as nothing.
    fn numbers(&self) -> [(&'static str, Option<f32>); 2] {
        [("--rope-freq-base", self.freq_base), ("--rope-scale", self.freq_scale)]
            .map(|(flag, number)| (flag, number.filter(|&number| number != 0.0)))
    }

    /// YaRN's numbers, with their flags and keys: what is below 0 is as nothing.
    fn yarn(&self) -> [(&'static str, &'static str, Option<f32>); 4] {
        [
            ("--yarn-ext-factor", KEPT, self.yarn_ext_factor),
            ("--yarn-attn-factor", MAGNITUDE, self.yarn_attn_factor),
            ("--yarn-beta-slow", SLOW, self.yarn_beta_slow),
            ("--yarn-beta-fast", FAST, self.yarn_beta_fast),
        ]
        .map(|(flag, key, number)| (flag, key, number.filter(|&number| number >= 0.0)))
    }

    fn original(&self) -> Option<u32> {
        self.yarn_orig_ctx.filter(|&positions| positions != 0)
    }

    /// Whether fast pairs keep something of their frequencies, with a scaling of this name.
    fn keeps(&self, scaling: &str) -> bool {
        self.yarn_ext_factor.filter(|&share| share >= 0.0).map_or(scaling == "yarn", |share| share != 0.0)
    }

    /// The file with the metadata that says so.
    pub(super) fn apply(&self, gguf: &Gguf) -> Result<Gguf, Error> {
        self.check()?;
        let Some(arch) = gguf.metadata().str("general.architecture")?.map(str::to_owned) else {
            return Ok(gguf.clone());
        };
        let windows = Config::from_gguf(gguf).and_then(|config| config.window_rotation(gguf));
        // What is wrong with the file is said when it is loaded.
        let windows = windows.unwrap_or(WindowRotation::Without);
        let [(_, base), (_, scale)] = self.numbers();
        let moved = [
            ("--rope-scaling", self.scaling.is_some()),
            ("--rope-freq-base", base.is_some()),
            ("--rope-scale", scale.is_some()),
        ];
        if let Some((flag, _)) = moved.iter().find(|(_, given)| *given && windows == WindowRotation::Alike) {
            return Err(OverrideError::Windows { flag, arch }.into());
        }
        let mut keys = Keys { metadata: gguf.metadata().clone(), arch };
        let context = keys.metadata.u32(&keys.name(CONTEXT))?;
        let original = keys.metadata.u32(&keys.name(ORIGINAL))?.or(context);
        let said = keys.metadata.f32(&keys.name(FACTOR))?;
        let factor = said.or(keys.metadata.f32(&keys.name("rope.scale_linear"))?).filter(|&factor| factor != 0.0);
        if let Some(scaling) = self.scaling {
            keys.replace(TYPE, scaling.name());
        }
        if let Some(base) = base {
            if windows == WindowRotation::Unscaled {
                let old = keys.metadata.f32(&keys.name(BASE))?.unwrap_or(10_000.0);
                keys.spell_out("rope.freq_base_swa", old);
            }
            keys.replace(BASE, base);
        }
        let scaling = keys.metadata.str(&keys.name(TYPE))?.unwrap_or("linear").to_owned();
        let wanted = scale.map(|scale| (1.0 / f64::from(scale)) as f32);
        if let Some(factor) = wanted {
            keys.replace(FACTOR, factor);
        }
        let keeps = self.keeps(&scaling);
        if let Some(positions) = self.original().filter(|_| keeps) {
            if gguf.tensor("rope_factors_long.weight").is_some() {
                return Err(OverrideError::LongFactors { flag: "--yarn-orig-ctx" }.into());
            }
            // Queries that grow with their position go by the file's number.
            if let Some(original) = original.filter(|_| keys.has("attention.temperature_scale")) {
                keys.spell_out("attention.temperature_length", original);
            }
            keys.replace(ORIGINAL, positions);
        }
        if let (Some(wanted), Some(original), "yarn") = (wanted, self.original().or(original), scaling.as_str())
            && wanted != factor.unwrap_or(1.0)
        {
            keys.spell_out(ORIGINAL, original);
            keys.replace(CONTEXT, (f64::from(original) * f64::from(wanted)) as u32);
        }
        for (flag, key, number) in self.yarn() {
            if let Some(number) = number.filter(|_| counts(flag, keeps)) {
                keys.replace(key, number);
            }
        }
        Ok(gguf.with_metadata(keys.metadata))
    }

    /// Finds numbers that make no sense.
    fn check(&self) -> Result<(), OverrideError> {
        let positive = self.numbers().into_iter().filter_map(|(flag, number)| Some((flag, number?)));
        for (flag, got) in positive {
            let least = if flag == "--rope-freq-base" { 1.0 } else { 0.0 };
            if !(got.is_finite() && got > least) {
                let expected = if flag == "--rope-freq-base" { "a number above 1" } else { "a positive number" };
                return Err(OverrideError::Rope { flag, expected, got });
            }
        }
        let yarn = [self.yarn_ext_factor, self.yarn_attn_factor, self.yarn_beta_slow, self.yarn_beta_fast];
        for ((flag, ..), number) in self.yarn().into_iter().zip(yarn) {
            if let Some(got) = number.filter(|number| !number.is_finite()) {
                return Err(OverrideError::Rope { flag, expected: "a number", got });
            }
        }
        Ok(())
    }

    /// The flags that change nothing in a file of [`RopeOverrides::apply`].
    pub(super) fn without_effect(&self, gguf: &Gguf, unread: impl Fn(&str) -> bool) -> Vec<&'static str> {
        let arch = gguf.metadata().str("general.architecture").ok().flatten().unwrap_or_default();
        let name = |key: &str| format!("{arch}.{key}");
        let scaling = gguf.metadata().str(&name(TYPE)).ok().flatten().unwrap_or("linear");
        let keeps = self.keeps(scaling);
        let [(_, base), (_, scale)] = self.numbers();
        let given = [("--rope-scaling", TYPE, self.scaling.is_some()), ("--rope-freq-base", BASE, base.is_some())];
        let scaled = ("--rope-scale", FACTOR, scale.is_some());
        let given = given.into_iter().chain([scaled]);
        let yarn = self.yarn().map(|(flag, key, number)| (flag, key, number.is_some()));
        let mut none: Vec<_> = given.clone().filter(|(_, key, given)| *given && unread(&name(key))).collect();
        if scale.is_some() && scaling == "none" && none.iter().all(|(flag, ..)| *flag != "--rope-scale") {
            none.push(scaled);
        }
        // Where nothing rotates, nothing of YaRN counts.
        let rotates = !given.clone().any(|(_, key, given)| given && unread(&name(key)));
        if self.original().is_some() && !(keeps && rotates) {
            none.push(("--yarn-orig-ctx", ORIGINAL, true));
        }
        none.extend(
            yarn.into_iter().filter(|(flag, key, given)| *given && (!counts(flag, keeps) || unread(&name(key)))),
        );
        none.into_iter().map(|(flag, ..)| flag).collect()
    }
}

/// Whether a number of YaRN counts, as in llama.cpp: its magnitude only without the ramp, the ramp's ends only with it.
fn counts(flag: &str, keeps: bool) -> bool {
    match flag {
        "--yarn-ext-factor" => true,
        "--yarn-attn-factor" => !keeps,
        _ => keeps,
    }
}
