//! The flags of `candor pull`, `list` and `rm`.

use clap::Args;

use super::shared::When;

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
