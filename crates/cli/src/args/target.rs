//! The flags of `candor quantize` that choose formats by what they cost on a text.

use std::path::PathBuf;

use candor_inspect::target::Limit;
use clap::Args;

use super::{
    device::Size,
    number,
    shared::{CacheArgs, PerformanceArgs},
};

/// How large the file may be, and where to measure.
#[derive(Debug, Args)]
pub struct TargetArgs {
    /// Choose the formats by what they cost on the text of -f, so that the file has at most this size, such as 4.2G or 3.9Gi;
    /// there is no TYPE then
    #[arg(long, value_name = "SIZE", help_heading = "Target", requires = "file")]
    #[arg(conflicts_with_all = ["pure", "prune_layers", "keep_split"])]
    pub target_size: Option<Size>,
    /// The same by bits for each weight, of tensors alone
    #[arg(long, value_name = "BITS", help_heading = "Target", requires = "file", value_parser = bits)]
    #[arg(conflicts_with_all = ["target_size", "pure", "prune_layers", "keep_split"])]
    pub target_bpw: Option<f64>,
    /// The text on which divergence from INPUT is measured (`-` is stdin)
    #[arg(short, long, value_name = "FILE", help_heading = "Target")]
    pub file: Option<PathBuf>,
    /// Tokens of a window, of which the second half is scored
    #[arg(short, long, value_name = "N", default_value = "256", help_heading = "Target")]
    #[arg(value_parser = number::whole(4..=u32::MAX))]
    pub ctx_size: u32,
    /// Windows that are scored at most, from the beginning of the text
    #[arg(long, value_name = "N", default_value = "8", help_heading = "Target")]
    #[arg(value_parser = number::whole(1..=u32::MAX))]
    pub chunks: u32,
    /// Models that are measured at most, one for each tensor at least; left out, four for each
    #[arg(long, value_name = "N", help_heading = "Target", value_parser = number::whole(1..=u32::MAX))]
    pub runs: Option<u32>,
    /// Write what was chosen, for --tensor-type-file
    #[arg(long, value_name = "FILE", help_heading = "Target")]
    pub tensor_type_output: Option<PathBuf>,
    #[command(flatten)]
    pub cache: CacheArgs,
    #[command(flatten)]
    pub performance: PerformanceArgs,
}

impl TargetArgs {
    /// How large the file may be; `None` where a type says what it is made of.
    pub fn limit(&self) -> Option<Limit> {
        self.target_size.map(|size| Limit::File(size.bytes())).or(self.target_bpw.map(Limit::Bits))
    }
}

/// Bits for each weight.
fn bits(text: &str) -> Result<f64, String> {
    let number = text.trim().parse().ok().filter(|bits: &f64| bits.is_finite() && *bits > 0.0);
    number.ok_or_else(|| "expected bits for each weight, such as 4.5".to_owned())
}
