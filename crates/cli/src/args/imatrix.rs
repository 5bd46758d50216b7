//! The flags of `candor imatrix`, under llama-imatrix's names.

use std::path::PathBuf;

use candor_convert::Layout;
use clap::{Args, ValueEnum};

use super::{
    number,
    overrides::OverrideArgs,
    shared::{CacheArgs, ModelArgs, OutputArgs, PerformanceArgs},
};

/// `candor imatrix`.
#[derive(Debug, Args)]
pub struct ImatrixArgs {
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub overrides: OverrideArgs,
    /// The text (`-` is stdin), less one line break at its end; without one, the files of --in-file are added up
    #[arg(short, long, value_name = "FILE", help_heading = "Prompt")]
    pub file: Option<PathBuf>,
    /// Take the names of special tokens in the text as these tokens
    #[arg(long, help_heading = "Prompt")]
    pub parse_special: bool,
    /// Tokens of a window
    #[arg(short, long, value_name = "N", default_value = "512", help_heading = "Context")]
    #[arg(value_parser = number::whole(4..=u32::MAX))]
    pub ctx_size: u32,
    /// Windows that are read at most
    #[arg(long, value_name = "N", help_heading = "Context", value_parser = number::whole(1..=u32::MAX))]
    pub chunks: Option<u32>,
    /// Windows of the text to pass over, which an earlier run has read
    #[arg(long, value_name = "N", default_value = "0", visible_alias = "chunk", help_heading = "Context")]
    #[arg(value_parser = number::whole(0..=u32::MAX))]
    pub from_chunk: u32,
    /// Sum up what the output's matrix is multiplied with, too
    #[arg(long, help_heading = "Sums")]
    pub process_output: bool,
    /// A file of earlier runs to add to; can be given more than once
    #[arg(long, value_name = "FILE", help_heading = "Sums")]
    pub in_file: Vec<PathBuf>,
    /// The file to write
    #[arg(
        short,
        long,
        visible_alias = "output",
        value_name = "FILE",
        default_value = "imatrix.gguf",
        help_heading = "Sums"
    )]
    pub output_file: PathBuf,
    /// Its format: GGUF, or that of 2024
    #[arg(long, value_name = "FORMAT", default_value = "gguf", help_heading = "Sums")]
    pub output_format: ImatrixFormat,
    /// Write what there is after this many windows (also -ofreq)
    #[arg(long, value_name = "N", default_value = "10", help_heading = "Sums")]
    #[arg(value_parser = number::whole(1..=u32::MAX))]
    pub output_frequency: u32,
    #[command(flatten)]
    pub cache: CacheArgs,
    #[command(flatten)]
    pub performance: PerformanceArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// A format of importance matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ImatrixFormat {
    Gguf,
    Dat,
}

impl From<ImatrixFormat> for Layout {
    fn from(format: ImatrixFormat) -> Layout {
        match format {
            ImatrixFormat::Gguf => Layout::Gguf,
            ImatrixFormat::Dat => Layout::Dat,
        }
    }
}
