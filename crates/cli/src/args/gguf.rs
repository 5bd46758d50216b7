//! The words and flags of `candor gguf`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{number, shared::WaitingArgs};

/// `candor gguf`.
#[derive(Debug, Args)]
pub struct GgufArgs {
    /// What to do
    #[arg(value_name = "ACTION")]
    pub action: GgufAction,
    /// The file to read, of a split model any of its files
    #[arg(value_name = "INPUT")]
    pub input: PathBuf,
    /// The file to write; split writes OUTPUT-00001-of-00002.gguf and so on
    #[arg(value_name = "OUTPUT")]
    pub output: PathBuf,
    /// Keys, names or parts of names, as the action says
    #[arg(value_name = "WORD")]
    pub words: Vec<String>,
    /// Tensors of a file at most, for split
    #[arg(long, value_name = "N", help_heading = "Split", value_parser = number::whole(1..=u32::MAX))]
    pub split_max_tensors: Option<u32>,
    /// Bytes of a file at most, for split: 500M or 2G; a larger tensor has a file of its own
    #[arg(long, value_name = "SIZE", help_heading = "Split", value_parser = size)]
    pub split_max_size: Option<u64>,
    #[command(flatten)]
    pub waiting: WaitingArgs,
}

/// What `candor gguf` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum GgufAction {
    /// Give keys of the metadata values: KEY=VALUE of the type that it has, or KEY=TYPE:VALUE
    Set,
    /// Take keys out of the metadata: KEY
    Unset,
    /// Give tensors other names: OLD=NEW
    Rename,
    /// Keep the tensors alone whose name has one of the words
    Extract,
    /// Write several files, of one or of several (also reshard)
    #[value(alias = "reshard")]
    Split,
    /// Write one file of several
    Merge,
}

/// Bytes, as llama-gguf-split has them: M is a million, G a thousand of these.
fn size(text: &str) -> Result<u64, String> {
    let wrong = || format!("expected a size such as 500M or 2G, got {text}");
    let (number, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(wrong)?;
    let unit = match unit {
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        _ => return Err(wrong()),
    };
    number
        .parse::<u64>()
        .ok()
        .filter(|&number| number > 0)
        .and_then(|number| number.checked_mul(unit))
        .ok_or_else(wrong)
}
