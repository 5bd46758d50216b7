//! The settings of a sampling chain: llama.cpp's names and defaults, their ranges, their text forms. No sampler.

use serde::{Deserialize, Serialize};

use super::{Error, SamplerKind, bias};

/// The settings of a sampling chain. Names are those of llama.cpp's flags; the defaults are its own.
///
/// A setting missing from a serialised form has its default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Sampling {
    /// Logits are divided by it; 0 or less keeps the best token alone.
    pub temperature: f32,
    /// How far the temperature may go from `temperature` either way, by the distribution's entropy; 0 is off.
    pub dynatemp_range: f32,
    /// Exponent that maps the normalised entropy to the temperature's range.
    pub dynatemp_exp: f32,
    /// How many of the most likely tokens stay; 0 or less is off.
    pub top_k: i32,
    /// The most likely tokens stay that have this probability together; 1 is off.
    pub top_p: f32,
    /// Tokens stay that have this share of the best one's probability; 0 is off.
    pub min_p: f32,
    /// Locally typical sampling: tokens near the expected surprise stay, up to this probability; 1 is off.
    pub typical_p: f32,
    /// Keeps tokens whose logits are within this number of standard deviations of the best; 0 or less is off.
    pub top_n_sigma: f32,
    /// Chance that XTC acts on a token; 0 is off.
    pub xtc_probability: f32,
    /// XTC drops all tokens at least this likely but the last of them; above 0.5 is off.
    pub xtc_threshold: f32,
    /// Positive logits of seen tokens are divided by it, others multiplied; 1 is off.
    pub repeat_penalty: f32,
    /// How many of the last tokens the three penalties look at; 0 is off, -1 the whole context.
    pub repeat_last_n: i32,
    /// Taken from the logit of every seen token; 0 is off.
    pub presence_penalty: f32,
    /// Taken from the logit once for each time that the token was seen; 0 is off.
    pub frequency_penalty: f32,
    /// DRY takes `dry_multiplier * dry_base ^ (repeated length - dry_allowed_length)`; 0 is off.
    pub dry_multiplier: f32,
    /// Base of that power; below 1 DRY is off.
    pub dry_base: f32,
    /// Repetitions shorter than this are free.
    pub dry_allowed_length: u32,
    /// How many of the last tokens DRY looks at; 0 is off, -1 the whole context.
    pub dry_penalty_last_n: i32,
    /// Texts that a repetition does not reach across.
    pub dry_sequence_breakers: Vec<String>,
    /// Mirostat's version, 0 (off), 1 or 2. Where it is on only the logit bias and the temperature act besides it.
    pub mirostat: u8,
    /// Mirostat's target surprise, in bits (`--mirostat-ent`).
    #[serde(alias = "mirostat_ent")]
    pub mirostat_tau: f32,
    /// Mirostat's learning rate (`--mirostat-lr`).
    #[serde(alias = "mirostat_lr")]
    pub mirostat_eta: f32,
    /// Added to the logits of these tokens first of all; minus infinity (`false` in serialised form) excludes one.
    #[serde(with = "bias::text")]
    pub logit_bias: Vec<(u32, f32)>,
    /// The samplers in the order in which they act.
    pub samplers: Vec<SamplerKind>,
    /// The least number of tokens that top-p, min-p, typical and XTC leave.
    pub min_keep: usize,
    /// Start of the random numbers; `None` or `u32::MAX` (llama.cpp's -1) draws one.
    pub seed: Option<u32>,
}

setters!(Sampling {
    temperature: f32,
    dynatemp_range: f32,
    dynatemp_exp: f32,
    top_k: i32,
    top_p: f32,
    min_p: f32,
    typical_p: f32,
    top_n_sigma: f32,
    xtc_probability: f32,
    xtc_threshold: f32,
    repeat_penalty: f32,
    repeat_last_n: i32,
    presence_penalty: f32,
    frequency_penalty: f32,
    dry_multiplier: f32,
    dry_base: f32,
    dry_allowed_length: u32,
    dry_penalty_last_n: i32,
    dry_sequence_breakers: Vec<String>,
    mirostat: u8,
    mirostat_tau: f32,
    mirostat_eta: f32,
    logit_bias: Vec<(u32, f32)>,
    samplers: Vec<SamplerKind>,
    min_keep: usize,
    seed: impl Into<Option<u32>>,
});

impl Default for Sampling {
    fn default() -> Self {
        Self {
            temperature: 0.8,
            dynatemp_range: 0.0,
            dynatemp_exp: 1.0,
            top_k: 40,
            top_p: 0.95,
            min_p: 0.05,
            typical_p: 1.0,
            top_n_sigma: -1.0,
            xtc_probability: 0.0,
            xtc_threshold: 0.1,
            repeat_penalty: 1.0,
            repeat_last_n: 64,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            dry_multiplier: 0.0,
            dry_base: 1.75,
            dry_allowed_length: 2,
            dry_penalty_last_n: 64,
            dry_sequence_breakers: ["\n", ":", "\"", "*"].map(String::from).to_vec(),
            mirostat: 0,
            mirostat_tau: 5.0,
            mirostat_eta: 0.1,
            logit_bias: Vec::new(),
            samplers: SamplerKind::DEFAULT_ORDER.to_vec(),
            min_keep: 0,
            seed: None,
        }
    }
}

impl Sampling {
    /// Always the best token: the defaults at temperature 0.
    pub fn greedy() -> Self {
        Self { temperature: 0.0, ..Self::default() }
    }

    /// Reads a chain as `--samplers` takes it: names with `;` between them. An empty text is an empty chain.
    ///
    /// # Errors
    /// [`Error::UnknownSampler`] or [`Error::NamelessSampler`] with the names that are known.
    pub fn parse_samplers(text: &str) -> Result<Vec<SamplerKind>, Error> {
        if text.trim().is_empty() {
            return Ok(Vec::new());
        }
        let sampler = |(index, name): (usize, &str)| match name.trim() {
            "" => Err(Error::NamelessSampler { position: index + 1, chain: text.to_owned() }),
            name => name.parse(),
        };
        text.split(';').enumerate().map(sampler).collect()
    }

    /// Reads a chain as `--sampler-seq` takes it: one letter each, `edskypmxt` being the default.
    ///
    /// # Errors
    /// [`Error::UnknownLetter`] with the letters that are known.
    pub fn parse_sampler_seq(text: &str) -> Result<Vec<SamplerKind>, Error> {
        text.trim().chars().map(SamplerKind::from_letter).collect()
    }

    /// Checks every setting's range.
    ///
    /// # Errors
    /// [`Error::Setting`] names the first that is out of it.
    pub fn validate(&self) -> Result<(), Error> {
        let wrong = |name, expected, got: &dyn ToString| Err(Error::Setting { name, expected, got: got.to_string() });
        for (name, value) in [
            ("temperature", self.temperature),
            ("dynatemp_range", self.dynatemp_range),
            ("dynatemp_exp", self.dynatemp_exp),
            ("top_p", self.top_p),
            ("min_p", self.min_p),
            ("typical_p", self.typical_p),
            ("top_n_sigma", self.top_n_sigma),
            ("xtc_probability", self.xtc_probability),
            ("xtc_threshold", self.xtc_threshold),
            ("presence_penalty", self.presence_penalty),
            ("frequency_penalty", self.frequency_penalty),
            ("dry_multiplier", self.dry_multiplier),
            ("dry_base", self.dry_base),
            ("mirostat_tau", self.mirostat_tau),
            ("mirostat_eta", self.mirostat_eta),
        ] {
            if !value.is_finite() {
                return wrong(name, "a finite number", &value);
            }
        }
        // As llama.cpp: the reciprocal must be finite too.
        if !self.repeat_penalty.is_finite() || self.repeat_penalty <= 0.0 || !self.repeat_penalty.recip().is_finite() {
            return wrong("repeat_penalty", "a finite number above 0", &self.repeat_penalty);
        }
        for (name, value) in [("repeat_last_n", self.repeat_last_n), ("dry_penalty_last_n", self.dry_penalty_last_n)] {
            if value < -1 {
                return wrong(name, "-1 (the context), 0 (off) or a number of tokens", &value);
            }
        }
        if self.mirostat > 2 {
            return wrong("mirostat", "0, 1 or 2", &self.mirostat);
        }
        if let Some((_, bias)) = self.logit_bias.iter().find(|(_, bias)| bias.is_nan()) {
            return wrong("logit_bias", "a number", bias);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_are_read() {
        use SamplerKind::{Temperature, TopK, TopP};
        assert_eq!(Sampling::parse_samplers("top_k;top_p;temperature"), Ok(vec![TopK, TopP, Temperature]));
        assert_eq!(Sampling::parse_sampler_seq("kpt"), Ok(vec![TopK, TopP, Temperature]));
        assert_eq!(Sampling::parse_samplers(""), Ok(vec![]));
        let order = "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature";
        assert_eq!(Sampling::parse_samplers(order), Ok(Sampling::default().samplers));
        assert_eq!(Sampling::parse_sampler_seq("edskypmxt"), Ok(Sampling::default().samplers));
        for chain in ["top_k;;xtc", "top_k; "] {
            let nameless = Error::NamelessSampler { position: 2, chain: chain.to_owned() };
            assert_eq!(Sampling::parse_samplers(chain), Err(nameless));
        }
        assert_eq!(Sampling::parse_sampler_seq("k;p"), Err(Error::UnknownLetter { letter: ';' }));
    }

    #[test]
    fn each_range_is_checked() {
        type Change = fn(&mut Sampling);
        let cases: [(&str, Change); 10] = [
            ("temperature: expected a finite number, got NaN", |s| s.temperature = f32::NAN),
            ("top_p: expected a finite number, got inf", |s| s.top_p = f32::INFINITY),
            ("dry_base: expected a finite number, got -inf", |s| s.dry_base = f32::NEG_INFINITY),
            ("repeat_penalty: expected a finite number above 0, got 0", |s| s.repeat_penalty = 0.0),
            ("repeat_penalty: expected a finite number above 0, got -1", |s| s.repeat_penalty = -1.0),
            ("repeat_penalty: expected a finite number above 0, got NaN", |s| s.repeat_penalty = f32::NAN),
            ("repeat_last_n: expected -1 (the context), 0 (off) or a number of tokens, got -2", |s| {
                s.repeat_last_n = -2;
            }),
            ("dry_penalty_last_n: expected -1 (the context), 0 (off) or a number of tokens, got -7", |s| {
                s.dry_penalty_last_n = -7;
            }),
            ("mirostat: expected 0, 1 or 2, got 3", |s| s.mirostat = 3),
            ("logit_bias: expected a number, got NaN", |s| s.logit_bias = vec![(1, f32::NAN)]),
        ];
        for (message, change) in cases {
            let mut settings = Sampling::default();
            change(&mut settings);
            assert_eq!(settings.validate().unwrap_err().to_string(), message);
        }
        Sampling::default().validate().unwrap();
    }

    #[test]
    fn settings_survive_json() {
        let settings = Sampling {
            logit_bias: vec![(3, 1.5), (2, f32::NEG_INFINITY)],
            samplers: vec![SamplerKind::TopK, SamplerKind::Temperature],
            seed: Some(7),
            ..Sampling::default()
        };
        let text = serde_json::to_string(&settings).unwrap();
        assert!(text.contains(r#""logit_bias":[[3,1.5],[2,false]]"#), "{text}");
        assert!(text.contains(r#""samplers":["top_k","temperature"]"#), "{text}");
        assert_eq!(serde_json::from_str::<Sampling>(&text).unwrap(), settings);
        assert_eq!(serde_json::from_str::<Sampling>("{}").unwrap(), Sampling::default());
        let error = serde_json::from_str::<Sampling>(r#"{"samplers":["topq"]}"#).unwrap_err().to_string();
        assert!(error.contains("sampler `topq` is unknown"), "{error}");
        let error = serde_json::from_str::<Sampling>(r#"{"logit_bias":[[1,true]]}"#).unwrap_err().to_string();
        assert!(error.contains("logit bias"), "{error}");
    }
}
