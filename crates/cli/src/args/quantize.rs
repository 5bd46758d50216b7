//! The flags of `candor quantize`, under llama-quantize's names.

use std::path::PathBuf;

use candor_convert::FileType;
use candor_gguf::Format;
use clap::Args;

use super::{number, overrides::MetadataArgs, shared::WaitingArgs, target::TargetArgs};
use crate::near::nearest;

/// `candor quantize`.
#[derive(Debug, Args)]
pub struct QuantizeArgs {
    /// The file to read, of a split model any of its files
    #[arg(value_name = "INPUT")]
    pub input: PathBuf,
    /// The file to write (not with --dry-run), the type of file to make, and how many threads encode; left out, as many as
    /// there are cores
    #[arg(value_name = "OUTPUT TYPE [THREADS]", num_args = 1..=3)]
    #[arg(required_unless_present_any = ["target_size", "target_bpw"])]
    pub words: Vec<String>,
    /// Give all matrices the same format, without a mixture
    #[arg(long, help_heading = "Formats")]
    pub pure: bool,
    /// Leave output.weight as it is
    #[arg(long, help_heading = "Formats")]
    pub leave_output_tensor: bool,
    /// The format of output.weight, and of the embeddings where they are the output, too
    #[arg(long, value_name = "FORMAT", help_heading = "Formats", value_parser = format)]
    pub output_tensor_type: Option<Format>,
    /// The format of the embeddings
    #[arg(long, value_name = "FORMAT", help_heading = "Formats", value_parser = format)]
    pub token_embedding_type: Option<Format>,
    /// The format of the tensors in whose name a regular expression is found, the first that is; can be given more than once
    #[arg(long, value_name = "NAME=FORMAT", help_heading = "Formats", value_parser = named)]
    pub tensor_type: Vec<(String, Format)>,
    /// Read such pairs from a file, with spaces or line breaks between them
    #[arg(long, value_name = "FILE", help_heading = "Formats")]
    pub tensor_type_file: Option<PathBuf>,
    /// An importance matrix, as llama-imatrix makes them: which columns are to be kept best
    #[arg(long, value_name = "FILE", help_heading = "Importance")]
    pub imatrix: Option<PathBuf>,
    /// Use it for the tensors alone whose name holds this; can be given more than once
    #[arg(long, value_name = "NAME", help_heading = "Importance")]
    pub include_weights: Vec<String>,
    /// Do not use it for the tensors whose name holds this; can be given more than once
    #[arg(long, value_name = "NAME", help_heading = "Importance", conflicts_with = "include_weights")]
    pub exclude_weights: Vec<String>,
    /// Quantize matrices that are quantized already, which costs more than quantizing once
    #[arg(long, help_heading = "Files")]
    pub allow_requantize: bool,
    /// Layers to leave out, counted from 0
    #[arg(long, value_name = "N,N...", help_heading = "Files", value_delimiter = ',')]
    #[arg(value_parser = number::whole(0..=u32::MAX))]
    pub prune_layers: Vec<u32>,
    /// Write as many files as the input has: OUTPUT-00001-of-00002.gguf
    #[arg(long, help_heading = "Files")]
    pub keep_split: bool,
    /// Print what each tensor would become and how large the file would be, and write nothing
    #[arg(long, help_heading = "Files")]
    pub dry_run: bool,
    #[command(flatten)]
    pub target: TargetArgs,
    #[command(flatten)]
    pub metadata: MetadataArgs,
    #[command(flatten)]
    pub waiting: WaitingArgs,
}

/// What `COPY` stands for among the types: everything stays as it is.
pub const COPY: &str = "COPY";

/// Names of types, for hints.
pub fn types() -> impl Iterator<Item = &'static str> {
    FileType::ALL.iter().map(|kind| kind.name()).chain([COPY])
}

/// A format by ggml's name, in letters of either case.
pub fn format(text: &str) -> Result<Format, String> {
    let formats = Format::ALL.iter().copied();
    formats.clone().find(|format| format.name().eq_ignore_ascii_case(text)).ok_or_else(|| {
        match nearest(text, formats.map(Format::name)) {
            Some(near) => format!("there is no such format; is {near} meant?"),
            None => "expected a format, such as Q6_K".to_owned(),
        }
    })
}

/// A pair of `--tensor-type`. As in llama-quantize, names are in small letters.
pub fn named(text: &str) -> Result<(String, Format), String> {
    let (name, wanted) = text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or("expected NAME=FORMAT")?;
    Ok((name.to_lowercase(), format(wanted)?))
}
