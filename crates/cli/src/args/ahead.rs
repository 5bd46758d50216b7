//! The flags of what is done ahead of time: tokens that are guessed, and prompts that are kept. llama.cpp's names,
//! except prompt lookup, which is called as in Transformers: llama.cpp has it as programs of their own.

use std::path::PathBuf;

use clap::Args;

use super::number;

/// How tokens are guessed ahead.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Speculation")]
pub struct SpeculationArgs {
    /// Let a smaller model with the same vocabulary guess tokens ahead; the text stays the same (also -md)
    #[arg(long, value_name = "FILE")]
    pub model_draft: Option<PathBuf>,
    /// Guess that a text which repeats itself goes on as before; the text stays the same
    #[arg(long)]
    pub prompt_lookup: bool,
    /// Most tokens guessed at once
    #[arg(long, value_name = "N", default_value = "16", visible_aliases = ["draft", "draft-n"])]
    #[arg(value_parser = number::whole(0..=u32::MAX))]
    pub draft_max: u32,
    /// Do not try guesses of fewer tokens
    #[arg(long, value_name = "N", default_value = "0", visible_aliases = ["draft-n-min"])]
    #[arg(value_parser = number::whole(0..=u32::MAX))]
    pub draft_min: u32,
    /// A token that the draft model thinks less likely ends its guess
    #[arg(long, value_name = "P", default_value = "0.75", value_parser = number::probability)]
    pub draft_p_min: f32,
}

/// Where computed prompts are kept.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Context")]
pub struct PromptCacheArgs {
    /// Keep the computed prompt in a file, so that a later one that begins alike is computed from where they part
    #[arg(long, value_name = "FILE")]
    pub prompt_cache: Option<PathBuf>,
    /// Keep the answer there, too
    #[arg(long)]
    pub prompt_cache_all: bool,
    /// Only read that file
    #[arg(long)]
    pub prompt_cache_ro: bool,
}
