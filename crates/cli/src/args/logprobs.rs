//! The flags of what is said about each generated token.

use std::path::PathBuf;

use clap::Args;

use super::number;

/// What is said about each generated token.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct LogprobsArgs {
    /// Print each generated token to stderr with its logit, logprob and rank, and the N likeliest, as they are before sampling
    #[arg(long, value_name = "N", value_parser = number::whole(0..=usize::MAX))]
    pub logprobs: Option<usize>,
    /// Write them to a file instead: a JSON object a line, with the names of llama.cpp's server
    #[arg(long, value_name = "FILE")]
    pub logprobs_output: Option<PathBuf>,
}
