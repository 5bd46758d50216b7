//! Why a file can't be made of another.

use candor_kernels::ISA_VARIABLE;
use candor_quant::Format;

/// What keeps a file from being made. Messages are one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Reading or writing.
    #[error(transparent)]
    Gguf(#[from] candor_gguf::Error),
    /// Rows that are no whole blocks of a format, where nothing stands in.
    #[error("{tensor}: rows of {cols} are no whole blocks of {}, which has {}", format.name(), format.block_len())]
    Rows {
        /// The tensor.
        tensor: String,
        /// What it was to be.
        format: Format,
        /// Elements of a row.
        cols: u64,
    },
    /// A name without a layer where experts are.
    #[error("{tensor}: expected the number of a layer below {layers} in the name")]
    Layer {
        /// The tensor.
        tensor: String,
        /// How many there are.
        layers: u32,
    },
    /// A format that can only be read.
    #[error("{tensor}: {} can be read and not made", format.name())]
    Unmade {
        /// The first tensor that was to have it.
        tensor: String,
        /// The format.
        format: Format,
    },
    /// A matrix that is quantized already.
    #[error("{tensor} is quantized already ({})", format.name())]
    Requantized {
        /// The first of them.
        tensor: String,
        /// What it is.
        format: Format,
    },
    /// A format that is worthless without importance.
    #[error("{tensor}: {} needs an importance matrix", format.name())]
    NeedsImportance {
        /// The first tensor that was to have it.
        tensor: String,
        /// The format.
        format: Format,
    },
    /// A weight that is no number.
    #[error("{tensor}: expected finite numbers, got {value} in row {row}")]
    NotFinite {
        /// The tensor.
        tensor: String,
        /// The row, from 0.
        row: u64,
        /// The first of them.
        value: f32,
    },
    /// An importance matrix that does not fit or can't be read.
    #[error("importance of {entry}: {problem}")]
    Importance {
        /// The entry, or the file.
        entry: String,
        /// What is wrong.
        problem: String,
    },
    /// A layer to prune that the model lacks.
    #[error("layer {layer} can't be left out: there are {layers}")]
    Prune {
        /// The layer, from 0.
        layer: u32,
        /// How many there are.
        layers: u32,
    },
    /// `CANDOR_ISA` names instructions that there aren't.
    #[error("{ISA_VARIABLE}: {0}")]
    Isa(#[from] candor_kernels::UnknownIsa),
    /// What is no regular expression for names of tensors.
    #[error("{pattern}: expected a regular expression")]
    Pattern {
        /// What it is.
        pattern: String,
    },
    /// The caller said so.
    #[error("cancelled")]
    Cancelled,
}
