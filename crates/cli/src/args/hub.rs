//! The flags of `candor pull`, `list` and `rm`, and those that name a model to fetch.

use clap::Args;

use super::shared::When;

/// Where a model comes from that is no file yet.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Model")]
pub struct FromArgs {
    /// The model of a repository of Hugging Face, fetched if it is not there: USER/REPO or USER/REPO:QUANT (also -hf)
    #[arg(long, value_name = "NAME")]
    pub hf_repo: Option<String>,
    /// Which file of that repository (also -hff)
    #[arg(long, value_name = "PATH")]
    pub hf_file: Option<String>,
    /// The model file at an address, fetched if it is not there (also -mu)
    #[arg(long, value_name = "URL")]
    pub model_url: Option<String>,
    /// Fetch nothing: what is named is on this machine, or an error
    #[arg(long)]
    pub offline: bool,
}

/// `candor pull`.
#[derive(Debug, Args)]
pub struct PullArgs {
    /// What to fetch: hf:USER/REPO, hf:USER/REPO:QUANT, hf:USER/REPO/FILE, ollama:NAME, ollama:NAME:TAG or an address
    #[arg(value_name = "NAME", required = true)]
    pub names: Vec<String>,
    /// Fetch nothing: what is named is on this machine, or an error
    #[arg(long)]
    pub offline: bool,
    /// Show a bar on a terminal: auto does where it takes a while
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub progress: When,
}

/// `candor list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `candor rm`.
#[derive(Debug, Args)]
pub struct RmArgs {
    /// What to remove, as candor list names it
    #[arg(value_name = "NAME", required = true)]
    pub names: Vec<String>,
}
