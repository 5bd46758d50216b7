//! The flags that several commands have: the model, the cache, where and how fast to compute, what is said.

use std::path::PathBuf;

use candor::{LoadOptions, Weights};
use clap::{ArgAction, Args, ValueEnum};

use super::{device::DeviceArgs, from::FromArgs, number};
use crate::{errors::Error, trust};

/// Which model.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Model")]
pub struct ModelArgs {
    /// Model file (GGUF; of a split model any one file), or a name as candor pull takes it; the built-in model if left out
    #[arg(value_name = "MODEL")]
    pub path: Option<PathBuf>,
    /// The model file, as the argument
    #[arg(short = 'm', long, value_name = "MODEL")]
    pub model: Option<PathBuf>,
    #[command(flatten)]
    pub from: FromArgs,
}

/// How much the model remembers.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Context")]
pub struct ContextArgs {
    /// Tokens of context; 0 takes the model's own, or what memory holds where that is less
    #[arg(short, long, value_name = "N", default_value = "0", value_parser = number::whole(0..=u32::MAX))]
    pub ctx_size: u32,
    /// Whether -c 0 is shortened to what memory holds, and mapped weights count there (also -fit)
    #[arg(long, value_name = "on|off", default_value = "on", action = ArgAction::Set, value_parser = number::on_or_off)]
    pub fit: bool,
    /// Fewest tokens of context that -c 0 may become (also -fitc)
    #[arg(long, value_name = "N", default_value = "4096", value_parser = number::whole(1..=u32::MAX))]
    pub fit_ctx: u32,
    #[command(flatten)]
    pub cache: CacheArgs,
}

/// How computed keys and values are kept.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Context")]
pub struct CacheArgs {
    /// Format of cached keys (also -ctk)
    #[arg(long, value_name = "FORMAT", default_value = "f16")]
    pub cache_type_k: CacheFormat,
    /// Format of cached values (also -ctv)
    #[arg(long, value_name = "FORMAT", default_value = "f16")]
    pub cache_type_v: CacheFormat,
}

/// Element formats of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CacheFormat {
    // 32-bit floats.
    F32,
    // Half-precision floats.
    F16,
    // 8 bits with a scale per 32.
    #[value(name = "q8_0")]
    Q8_0,
    // 4 bits with a scale per 32.
    #[value(name = "q4_0")]
    Q4_0,
}

/// Where and how fast to compute.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Performance")]
pub struct PerformanceArgs {
    #[command(flatten)]
    pub place: DeviceArgs,
    /// Most tokens of a prompt handed over at once
    #[arg(short, long, value_name = "N", default_value = "2048")]
    #[arg(value_parser = number::whole(1..=u32::MAX))]
    pub batch_size: u32,
    /// Most tokens of a prompt computed at once (also -ub)
    #[arg(long, value_name = "N", default_value = "512")]
    #[arg(value_parser = number::whole(1..=u32::MAX))]
    pub ubatch_size: u32,
    /// Read the weights into memory instead of mapping the file
    #[arg(long)]
    pub no_mmap: bool,
    /// Take a device at its word: a GPU is otherwise verified once for each driver, and `candor serve` verifies the processor
    #[arg(long)]
    pub no_verify: bool,
}

impl PerformanceArgs {
    /// The library's words for it.
    ///
    /// # Errors
    /// If the processors are none that can be used.
    pub fn load(&self) -> Result<LoadOptions, Error> {
        let weights = if self.no_mmap { Weights::Read } else { Weights::Mapped };
        Ok(self.place.load()?.weights(weights).verify(trust::verify(self.no_verify)))
    }
}

/// What is said besides the answer.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct OutputArgs {
    /// Print the model, the settings and timings to stderr
    #[arg(short, long)]
    pub verbose: bool,
    /// Show a bar or a spinner on a terminal while a file loads or texts are read: auto does where it takes a while
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub progress: When,
}

/// Whether a spinner is shown.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct WaitingArgs {
    /// Show a spinner on a terminal while the command computes: auto does where it takes a while
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub progress: When,
}

/// When to show something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum When {
    // Where it helps.
    Auto,
    // In any case.
    Always,
    // In no case.
    Never,
}
