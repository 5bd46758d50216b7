//! The flags that replace what a file says of its model, under llama.cpp's names: metadata, and how positions are rotated.

use std::str::FromStr;

use candor::{MetadataOverride, Overrides, RopeOverrides, RopeScaling, overrides::OverrideError};
use clap::{Args, ValueEnum};

use super::number;

/// What of the metadata is replaced.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Model")]
pub struct MetadataArgs {
    /// Read the file as if its metadata had this value, of the type int, float, bool or str; several with commas between
    /// them, or the flag again
    #[arg(long, value_name = "KEY=TYPE:VALUE")]
    pub override_kv: Vec<Listed>,
}

/// What of the metadata is replaced, and how positions are rotated.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Positions")]
pub struct OverrideArgs {
    #[command(flatten)]
    pub metadata: MetadataArgs,
    /// How positions are scaled for longer contexts; left out, as the file says
    #[arg(long, value_name = "HOW", help_heading = "Positions")]
    pub rope_scaling: Option<ScalingName>,
    /// Make the context N times as long by dividing positions
    #[arg(long, value_name = "N", help_heading = "Positions", value_parser = above_zero)]
    pub rope_scale: Option<f32>,
    /// The base of the rotary frequencies; 0 takes the file's
    #[arg(long, value_name = "N", help_heading = "Positions", value_parser = number::real)]
    pub rope_freq_base: Option<f32>,
    /// The same as --rope-scale, as what positions are multiplied with: 0.25 for 4; 0 takes the file's
    #[arg(long, value_name = "N", help_heading = "Positions", value_parser = number::real)]
    pub rope_freq_scale: Option<f32>,
    /// YaRN: positions that the model was trained on; 0 takes the file's
    #[arg(long, value_name = "N", help_heading = "Positions", value_parser = number::whole(0..=u32::MAX))]
    pub yarn_orig_ctx: Option<u32>,
    /// YaRN: the share of their own frequencies that fast pairs keep; 0 scales all pairs alike, -1 takes the file's
    #[arg(long, value_name = "N", help_heading = "Positions", allow_negative_numbers = true, value_parser = number::real)]
    pub yarn_ext_factor: Option<f32>,
    /// Factor on rotated queries and keys where all pairs are scaled alike; -1 takes the file's
    #[arg(long, value_name = "N", help_heading = "Positions", allow_negative_numbers = true, value_parser = number::real)]
    pub yarn_attn_factor: Option<f32>,
    /// YaRN: pairs with fewer turns within the trained positions are scaled by the whole factor; -1 takes the file's
    #[arg(long, value_name = "N", help_heading = "Positions", allow_negative_numbers = true, value_parser = number::real)]
    pub yarn_beta_slow: Option<f32>,
    /// YaRN: pairs with more turns keep their frequency; -1 takes the file's
    #[arg(long, value_name = "N", help_heading = "Positions", allow_negative_numbers = true, value_parser = number::real)]
    pub yarn_beta_fast: Option<f32>,
}

/// Keys with values, and commas between them; in quotes a comma is part of a value, and two quotes are one.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed(Vec<MetadataOverride>);

/// Names of scalings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ScalingName {
    // Positions as they are.
    None,
    // All frequencies divided by a factor.
    Linear,
    // Only slow ones.
    Yarn,
}

impl FromStr for Listed {
    type Err = OverrideError;

    fn from_str(text: &str) -> Result<Listed, OverrideError> {
        fields(text).iter().map(|field| field.parse()).collect::<Result<_, _>>().map(Listed)
    }
}

/// What lies between commas.
fn fields(text: &str) -> Vec<String> {
    let (mut fields, mut field, mut quoted) = (Vec::new(), String::new(), false);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.next_if_eq(&'"').is_some() => field.push('"'),
            '"' if quoted => quoted = false,
            '"' if field.is_empty() => quoted = true,
            ',' if !quoted => fields.push(std::mem::take(&mut field)),
            c => field.push(c),
        }
    }
    fields.push(field);
    fields
}

fn above_zero(text: &str) -> Result<f32, String> {
    let number = text.trim().parse().ok().filter(|number: &f32| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| "expected a number above 0, such as 4".to_owned())
}

impl MetadataArgs {
    /// The library's words for it.
    pub fn overrides(&self) -> Overrides {
        let all = self.override_kv.iter().flat_map(|Listed(list)| list.iter().cloned());
        Overrides::default().metadata(all.collect())
    }
}

impl OverrideArgs {
    /// The two ways to scale positions.
    pub const SCALES: [&str; 2] = ["rope_scale", "rope_freq_scale"];

    /// The library's words for it; `scale` is the one of [`Self::SCALES`] that counts.
    pub fn overrides(&self, scale: Option<&str>) -> Overrides {
        let scale = match scale {
            Some("rope_scale") => self.rope_scale.map(|scale| 1.0 / scale),
            _ => self.rope_freq_scale,
        };
        let scaling = self.rope_scaling.map(|name| match name {
            ScalingName::None => RopeScaling::None,
            ScalingName::Linear => RopeScaling::Linear,
            ScalingName::Yarn => RopeScaling::Yarn,
        });
        let rope = RopeOverrides::default()
            .scaling(scaling)
            .freq_base(self.rope_freq_base)
            .freq_scale(scale)
            .yarn_orig_ctx(self.yarn_orig_ctx)
            .yarn_ext_factor(self.yarn_ext_factor)
            .yarn_attn_factor(self.yarn_attn_factor)
            .yarn_beta_slow(self.yarn_beta_slow)
            .yarn_beta_fast(self.yarn_beta_fast);
        self.metadata.overrides().rope(rope)
    }
}

/// How what is behind a name of [`Overrides::without_effect`] was typed.
pub fn typed(name: &str) -> String {
    if name.starts_with("--") { name.to_owned() } else { format!("--override-kv {name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_as_in_tables_with_commas() {
        for (text, expected) in [
            ("a,b", &["a", "b"][..]),
            ("\"a=str:x,y\",b", &["a=str:x,y", "b"]),
            ("\"a\"\"b\"", &["a\"b"]),
            ("a\"b", &["a\"b"]),
            ("", &[""]),
        ] {
            assert_eq!(fields(text), expected, "{text}");
        }
        assert_eq!("a=int:1,b=bool:true".parse::<Listed>().map(|Listed(list)| list.len()), Ok(2));
        assert!("a=int:1,".parse::<Listed>().is_err());
    }
}
