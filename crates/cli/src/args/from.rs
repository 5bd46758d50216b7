//! The flags that name a model to fetch.

use clap::Args;

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
