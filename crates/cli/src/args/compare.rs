//! The flags of `candor compare`.

use std::path::PathBuf;

use clap::Args;

use super::{
    number,
    shared::{CacheArgs, OutputArgs, PerformanceArgs},
};

/// `candor compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// A model's file, such as the one that the other was quantized from
    #[arg(value_name = "A")]
    pub a: PathBuf,
    /// Another file of that model
    #[arg(value_name = "B")]
    pub b: PathBuf,
    /// A text on which to measure how far B's predictions are from A's (`-` is stdin)
    #[arg(short, long, value_name = "FILE", help_heading = "Prompt")]
    pub file: Option<PathBuf>,
    /// Measure on it, too, what each tensor costs: A with that tensor of B alone
    #[arg(long, requires = "file", help_heading = "Prompt")]
    pub costs: bool,
    /// Tokens of a window, of which the second half is scored
    #[arg(short, long, value_name = "N", default_value = "256", help_heading = "Context")]
    #[arg(value_parser = number::whole(4..=u32::MAX))]
    pub ctx_size: u32,
    /// Windows that are scored at most, from the beginning of the text
    #[arg(long, value_name = "N", default_value = "4", help_heading = "Context")]
    #[arg(value_parser = number::whole(1..=u32::MAX))]
    pub chunks: u32,
    #[command(flatten)]
    pub cache: CacheArgs,
    #[command(flatten)]
    pub performance: PerformanceArgs,
    /// Print JSON
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    #[command(flatten)]
    pub output: OutputArgs,
}
