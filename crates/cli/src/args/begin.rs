//! How a conversation begins.

use std::path::PathBuf;

use clap::Args;

/// How a conversation begins.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Prompt")]
pub struct BeginArgs {
    /// The first message, as the argument of -p
    #[arg(value_name = "PROMPT")]
    pub words: Option<String>,
    /// The first message; the conversation goes on after its answer
    #[arg(short, long, allow_hyphen_values = true)]
    pub prompt: Option<String>,
    /// Go on with a conversation that /save wrote; flags are before its settings
    #[arg(long, value_name = "FILE")]
    pub load: Option<PathBuf>,
}
