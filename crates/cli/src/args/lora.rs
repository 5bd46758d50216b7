//! The flags of adapters, llama.cpp's names.

use std::{fmt, path::PathBuf, str::FromStr};

use clap::Args;

/// Which adapters change the model, and by how much.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Model")]
pub struct LoraArgs {
    /// Change the model by a LoRA adapter (GGUF); several with commas between them, or the flag again
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    pub lora: Vec<PathBuf>,
    /// The same by so much: 1 as it was trained, 0 not at all
    #[arg(long, value_name = "FILE:SCALE", value_delimiter = ',')]
    pub lora_scaled: Vec<Scaled>,
}

/// An adapter's file and its scale: `adapter.gguf:0.5`.
#[derive(Clone, Debug, PartialEq)]
pub struct Scaled {
    pub path: PathBuf,
    pub scale: f32,
}

/// Why a text is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotScaled(String);

impl fmt::Display for NotScaled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected a file and its scale, such as adapter.gguf:0.5, got {:?}", self.0)
    }
}

impl std::error::Error for NotScaled {}

impl FromStr for Scaled {
    type Err = NotScaled;

    /// A path may have colons of its own: the last one counts.
    fn from_str(text: &str) -> Result<Scaled, NotScaled> {
        let wrong = || NotScaled(text.to_owned());
        let (path, scale) = text.rsplit_once(':').filter(|(path, _)| !path.is_empty()).ok_or_else(wrong)?;
        let scale = scale.trim().parse().ok().filter(|scale: &f32| scale.is_finite()).ok_or_else(wrong)?;
        Ok(Scaled { path: path.into(), scale })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_follow_the_last_colon() {
        for (text, expected) in [
            ("a.gguf:0.5", Some(("a.gguf", 0.5))),
            ("C:\\a.gguf:-2", Some(("C:\\a.gguf", -2.0))),
            ("a:b:0", Some(("a:b", 0.0))),
            ("a.gguf", None),
            ("C:\\a.gguf", None),
            (":1", None),
            ("a.gguf:", None),
            ("a.gguf:nan", None),
            ("a.gguf:inf", None),
        ] {
            let expected = expected.map(|(path, scale)| Scaled { path: path.into(), scale });
            assert_eq!(text.parse::<Scaled>().ok(), expected, "{text}");
        }
        let message = "a.gguf".parse::<Scaled>().unwrap_err().to_string();
        assert_eq!(message, "expected a file and its scale, such as adapter.gguf:0.5, got \"a.gguf\"");
    }
}
