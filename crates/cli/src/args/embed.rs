//! The flags of `candor embed` and `candor rerank`.

use std::path::PathBuf;

use candor::{EmbedOptions, Overlong, Pooling, Scaling};
use clap::{Args, ValueEnum};

use super::{
    lora::LoraArgs,
    number,
    overrides::OverrideArgs,
    shared::{ModelArgs, OutputArgs, PerformanceArgs},
};

/// `candor embed`.
#[derive(Debug, Args)]
pub struct EmbedArgs {
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub overrides: OverrideArgs,
    #[command(flatten)]
    pub lora: LoraArgs,
    /// A text; can be given more than once; without it and -f each line of stdin is one
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true, help_heading = "Texts")]
    pub prompt: Vec<String>,
    /// Take each line of a file as a text (`-` is stdin)
    #[arg(short, long, value_name = "FILE", help_heading = "Texts")]
    pub file: Option<PathBuf>,
    /// Cut texts off that are longer than the model's context, which is an error otherwise
    #[arg(long, help_heading = "Texts")]
    pub truncate: bool,
    #[command(flatten)]
    pub vectors: VectorArgs,
    /// What is printed: an object as OpenAI's interface gives, an array of vectors, or a NumPy file
    #[arg(long, value_name = "FORMAT", default_value = "json", help_heading = "Vectors")]
    pub embd_output_format: VectorFormat,
    /// Write to a file instead of stdout
    #[arg(long, short, value_name = "FILE", help_heading = "Vectors")]
    pub output_file: Option<PathBuf>,
    #[command(flatten)]
    pub performance: PerformanceArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// How vectors are made.
#[derive(Debug, Args)]
pub struct VectorArgs {
    /// How the vectors of a text's tokens become one; left out, as the file says
    #[arg(long, value_name = "HOW", help_heading = "Vectors")]
    pub pooling: Option<PoolingName>,
    /// The length of vectors: -1 as it is, 0 the largest magnitude is 32760, 1 taxicab, 2 Euclid, more a p-norm
    #[arg(long, value_name = "N", default_value = "2", allow_negative_numbers = true, help_heading = "Vectors")]
    #[arg(value_parser = number::whole(-1..=i32::MAX))]
    pub embd_normalize: i32,
}

/// `candor rerank`.
#[derive(Debug, Args)]
pub struct RerankArgs {
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub overrides: OverrideArgs,
    #[command(flatten)]
    pub lora: LoraArgs,
    /// What the documents are to answer
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true, required = true, help_heading = "Texts")]
    pub query: String,
    /// Take each line of a file as a document (`-` is stdin); without it each line of stdin
    #[arg(short, long, value_name = "FILE", help_heading = "Texts")]
    pub file: Option<PathBuf>,
    /// Cut documents off that with the query are longer than the model's context
    #[arg(long, help_heading = "Texts")]
    pub truncate: bool,
    /// Print only this many of the best; 0 prints all
    #[arg(long, value_name = "N", default_value = "0", value_parser = number::whole(0..=usize::MAX))]
    pub top_n: usize,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub performance: PerformanceArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Names of poolings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PoolingName {
    // A vector for every token.
    None,
    // Their mean.
    Mean,
    // The first one's.
    Cls,
    // The last one's.
    Last,
    // A reranker's scores.
    Rank,
}

/// What vectors are printed as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum VectorFormat {
    // An object as OpenAI's interface gives.
    Json,
    // An array of arrays.
    Array,
    // NumPy's file format, version 1, 32-bit floats.
    Npy,
}

impl VectorArgs {
    /// The library's words for it.
    pub fn options(&self, performance: &PerformanceArgs) -> EmbedOptions {
        let scaling = match self.embd_normalize {
            0 => Scaling::Max,
            p => u32::try_from(p).map_or(Scaling::None, Scaling::Norm),
        };
        let pooling = self.pooling.map(|name| match name {
            PoolingName::None => Pooling::None,
            PoolingName::Mean => Pooling::Mean,
            PoolingName::Cls => Pooling::Cls,
            PoolingName::Last => Pooling::Last,
            PoolingName::Rank => Pooling::Rank,
        });
        EmbedOptions::default().pooling(pooling).scaling(scaling).rows(rows(performance))
    }
}

impl EmbedArgs {
    /// The library's words for it.
    pub fn options(&self) -> EmbedOptions {
        self.vectors.options(&self.performance).overlong(overlong(self.truncate))
    }
}

impl RerankArgs {
    /// The library's words for it.
    pub fn options(&self) -> EmbedOptions {
        let (overlong, rows) = (overlong(self.truncate), rows(&self.performance));
        EmbedOptions::default().pooling(Pooling::Rank).scaling(Scaling::None).overlong(overlong).rows(rows)
    }
}

fn rows(performance: &PerformanceArgs) -> usize {
    performance.batch_size.min(performance.ubatch_size) as usize
}

fn overlong(truncate: bool) -> Overlong {
    if truncate { Overlong::Cut } else { Overlong::Refuse }
}
