//! The flags of sampling, under llama.cpp's names, and the library's settings made of them.

use candor::Sampling;
use clap::Args;

use super::number;
use crate::errors::Error;

/// How the next token is chosen.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Sampling")]
pub struct SamplingArgs {
    /// Seed of the random numbers; -1 draws one
    #[arg(short, long, value_name = "SEED", default_value = "-1", allow_negative_numbers = true)]
    #[arg(value_parser = number::whole(-1..=i64::from(u32::MAX)))]
    pub seed: i64,
    /// Order of the samplers, with ; between them
    #[arg(long, value_name = "NAMES")]
    #[arg(default_value = "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature")]
    pub samplers: String,
    /// The same by their letters (default order: edskypmxt); wins over --samplers
    #[arg(long, value_name = "LETTERS", visible_alias = "sampler-seq")]
    pub sampling_seq: Option<String>,
    /// Temperature: below 1 more predictable, above 1 less; 0 always takes the likeliest token
    #[arg(long, value_name = "T", default_value = "0.8", allow_negative_numbers = true, visible_alias = "temperature")]
    #[arg(value_parser = number::real)]
    pub temp: f32,
    /// Keep the K likeliest tokens; 0 is off
    #[arg(long, value_name = "K", default_value = "40", allow_negative_numbers = true)]
    #[arg(value_parser = number::whole(i32::MIN..=i32::MAX))]
    pub top_k: i32,
    /// Keep the likeliest tokens that have P together; 1 and more is off
    #[arg(long, value_name = "P", default_value = "0.95", allow_negative_numbers = true)]
    #[arg(value_parser = number::real)]
    pub top_p: f32,
    /// Keep tokens that are at least P times as likely as the best; 0 and less is off
    #[arg(long, value_name = "P", default_value = "0.05", allow_negative_numbers = true)]
    #[arg(value_parser = number::real)]
    pub min_p: f32,
    /// Keep tokens that are about as surprising as expected, up to P; 1 and more is off
    #[arg(long, value_name = "P", default_value = "1", allow_negative_numbers = true, visible_alias = "typical-p")]
    #[arg(value_parser = number::real)]
    pub typical: f32,
    /// Keep tokens within N standard deviations of the best logit; below 0 is off
    #[arg(long, value_name = "N", default_value = "-1", allow_negative_numbers = true)]
    #[arg(visible_alias = "top-n-sigma")]
    #[arg(value_parser = number::real)]
    pub top_nsigma: f32,
    /// Chance that XTC drops the likeliest tokens; 0 is off
    #[arg(long, value_name = "P", default_value = "0", allow_negative_numbers = true)]
    #[arg(value_parser = number::real)]
    pub xtc_probability: f32,
    /// XTC drops all tokens at least this likely but the last of them; above 0.5 is off
    #[arg(long, value_name = "P", default_value = "0.1", allow_negative_numbers = true)]
    #[arg(value_parser = number::real)]
    pub xtc_threshold: f32,
    /// How many of the last tokens the three penalties look at; 0 is off, -1 the context
    #[arg(long, value_name = "N", default_value = "64", allow_negative_numbers = true)]
    #[arg(value_parser = number::whole(i32::MIN..=i32::MAX))]
    pub repeat_last_n: i32,
    /// Make seen tokens less likely; 1 is off
    #[arg(long, value_name = "X", default_value = "1", allow_negative_numbers = true)]
    #[arg(value_parser = number::real)]
    pub repeat_penalty: f32,
    /// Taken from the logit of each token that was seen; 0 is off
    #[arg(long, value_name = "X", default_value = "0", allow_negative_numbers = true)]
    #[arg(value_parser = number::real)]
    pub presence_penalty: f32,
    /// Taken from the logit for each time that a token was seen; 0 is off
    #[arg(long, value_name = "X", default_value = "0", allow_negative_numbers = true)]
    #[arg(value_parser = number::real)]
    pub frequency_penalty: f32,
    /// Strength of DRY, a penalty on repeated sequences; 0 is off
    #[arg(long, value_name = "X", default_value = "0", allow_negative_numbers = true)]
    #[arg(value_parser = number::real)]
    pub dry_multiplier: f32,
    /// How fast DRY grows with the length of the repetition
    #[arg(long, value_name = "X", default_value = "1.75", allow_negative_numbers = true)]
    #[arg(value_parser = number::real)]
    pub dry_base: f32,
    /// Repetitions shorter than this are free of DRY
    #[arg(long, value_name = "N", default_value = "2")]
    #[arg(value_parser = number::whole(0..=u32::MAX))]
    pub dry_allowed_length: u32,
    /// How many of the last tokens DRY looks at; 0 is off, -1 the context
    #[arg(long, value_name = "N", default_value = "64", allow_negative_numbers = true)]
    #[arg(value_parser = number::whole(i32::MIN..=i32::MAX))]
    pub dry_penalty_last_n: i32,
    /// DRY does not look across this text; can be given more than once, `none` clears the list
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, default_values = ["\n", ":", "\"", "*"])]
    #[arg(hide_default_value = true)]
    pub dry_sequence_breaker: Vec<String>,
    /// Let the temperature vary by up to X either way; 0 is off
    #[arg(long, value_name = "X", default_value = "0", allow_negative_numbers = true)]
    #[arg(value_parser = number::real)]
    pub dynatemp_range: f32,
    /// Exponent of that
    #[arg(long, value_name = "X", default_value = "1", allow_negative_numbers = true)]
    #[arg(value_parser = number::real)]
    pub dynatemp_exp: f32,
    /// Mirostat 1 or 2 instead of the other samplers; 0 is off
    #[arg(long, value_name = "VERSION", default_value = "0", value_parser = number::whole::<u8>(0..=2))]
    pub mirostat: u8,
    /// Mirostat's learning rate
    #[arg(long, value_name = "X", default_value = "0.1", allow_negative_numbers = true)]
    #[arg(value_parser = number::real)]
    pub mirostat_lr: f32,
    /// Mirostat's target surprise, in bits
    #[arg(long, value_name = "X", default_value = "5", allow_negative_numbers = true)]
    #[arg(value_parser = number::real)]
    pub mirostat_ent: f32,
    /// Add to a token's logit: 15043+1 makes it likelier, 15043-inf excludes it; can be given more than once
    #[arg(short, long, value_name = "ID+-BIAS", value_delimiter = ',', value_parser = bias)]
    pub logit_bias: Vec<(u32, f32)>,
}

impl SamplingArgs {
    /// The library's settings. `text` is what makes the texts of sequence breakers of the arguments.
    pub fn sampling(&self, text: impl Fn(&str) -> Result<String, Error>) -> Result<Sampling, Error> {
        let samplers = match &self.sampling_seq {
            Some(letters) => Sampling::parse_sampler_seq(letters),
            None => Sampling::parse_samplers(&self.samplers),
        };
        // As llama.cpp reads it: everything before a `none` is dropped.
        let breakers = self.dry_sequence_breaker.as_slice();
        let breakers = breakers.rsplit(|breaker| breaker == "none").next().unwrap_or(breakers);
        let sampling = Sampling::default()
            .temperature(self.temp)
            .dynatemp_range(self.dynatemp_range)
            .dynatemp_exp(self.dynatemp_exp)
            .top_k(self.top_k)
            .top_p(self.top_p)
            .min_p(self.min_p)
            .typical_p(self.typical)
            .top_n_sigma(self.top_nsigma)
            .xtc_probability(self.xtc_probability)
            .xtc_threshold(self.xtc_threshold)
            .repeat_penalty(self.repeat_penalty)
            .repeat_last_n(self.repeat_last_n)
            .presence_penalty(self.presence_penalty)
            .frequency_penalty(self.frequency_penalty)
            .dry_multiplier(self.dry_multiplier)
            .dry_base(self.dry_base)
            .dry_allowed_length(self.dry_allowed_length)
            .dry_penalty_last_n(self.dry_penalty_last_n)
            .dry_sequence_breakers(breakers.iter().map(|breaker| text(breaker)).collect::<Result<_, _>>()?)
            .mirostat(self.mirostat)
            .mirostat_tau(self.mirostat_ent)
            .mirostat_eta(self.mirostat_lr)
            .logit_bias(self.logit_bias.clone())
            .samplers(samplers.map_err(candor::Error::from)?)
            .seed(u32::try_from(self.seed).ok());
        sampling.validate().map_err(candor::Error::from)?;
        Ok(sampling)
    }
}

/// `15043+1`, `15043-1.5`, `15043-inf`: a token and what is added to its logit.
fn bias(text: &str) -> Result<(u32, f32), String> {
    let expected = || "expected a token id, + or -, and a number, as 15043-1.5".to_owned();
    let at = text.find(['+', '-']).ok_or_else(expected)?;
    let id = text[..at].parse().map_err(|_| expected())?;
    let bias: f32 = text[at..].parse().map_err(|_| expected())?;
    if bias.is_nan() || bias == f32::INFINITY {
        return Err(expected());
    }
    Ok((id, bias))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        args: SamplingArgs,
    }

    fn sampling(flags: &[&str]) -> Sampling {
        let args = Alone::parse_from([&["test"], flags].concat()).args;
        args.sampling(|text| Ok(text.to_owned())).expect("valid")
    }

    #[test]
    fn the_defaults_are_the_librarys() {
        assert_eq!(sampling(&[]), Sampling::default());
    }

    #[test]
    fn a_bias_has_an_id_a_sign_and_a_number() {
        assert_eq!(bias("15043+1"), Ok((15043, 1.0)));
        assert_eq!(bias("1-1.5"), Ok((1, -1.5)));
        assert_eq!(bias("7-inf"), Ok((7, f32::NEG_INFINITY)));
        for wrong in ["", "1", "+1", "1+", "1+x", "x+1", "1+nan", "1+inf", "-1+2"] {
            assert!(bias(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sequence_breakers_replace_the_defaults_and_none_clears_them() {
        assert_eq!(sampling(&["--dry-sequence-breaker", "x"]).dry_sequence_breakers, ["x"]);
        assert!(sampling(&["--dry-sequence-breaker", "none"]).dry_sequence_breakers.is_empty());
        let both = sampling(&["--dry-sequence-breaker", "none", "--dry-sequence-breaker", "y"]);
        assert_eq!(both.dry_sequence_breakers, ["y"]);
    }
}
