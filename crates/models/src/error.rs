//! Why a file's model cannot be run.

use std::ops::Range;

/// Why a file's model cannot be run. Every message names the tensor, key or architecture it is about.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file's metadata is missing something or has it in the wrong type.
    #[error(transparent)]
    Gguf(#[from] candor_gguf::Error),
    /// The backend refused a weight, or the shapes do not belong together.
    #[error(transparent)]
    Ops(#[from] candor_ops::Error),
    /// No wiring knows this architecture.
    #[error(
        "architecture {name} is not supported: it needs a row, and perhaps a wiring, of its own ({known} others have them)"
    )]
    UnknownArchitecture {
        /// The file's `general.architecture`.
        name: String,
        /// How many can be run.
        known: usize,
    },
    /// A required key is absent.
    #[error("metadata key {0} is missing")]
    MissingKey(String),
    /// A key's value makes no sense.
    #[error("metadata key {key}: expected {expected}, got {got}")]
    BadValue {
        /// The key.
        key: String,
        /// What would do.
        expected: String,
        /// What was found.
        got: String,
    },
    /// The file asks for something that the wiring does not do.
    #[error("{0}")]
    Unsupported(String),
    /// A part was asked for of a model that is whole or nothing.
    #[error("a model whose layers hand on more than the stream cannot be divided over devices")]
    Undivided,
    /// A required tensor is absent.
    #[error("tensor {0} is missing")]
    MissingTensor(String),
    /// A tensor's dimensions are not the ones that the configuration implies.
    #[error("tensor {name}: expected {expected:?}, got {got:?}")]
    TensorShape {
        /// The tensor.
        name: String,
        /// Dimensions in GGUF's order, row length first.
        expected: Vec<u64>,
        /// Dimensions found.
        got: Vec<u64>,
    },
    /// A part was asked for that the model does not have.
    #[error("layers {}..{}: the model has {of}", layers.start, layers.end)]
    NoSuchLayers {
        /// The part's layers.
        layers: Range<usize>,
        /// Layers of the model.
        of: usize,
    },
    /// The file has weights that the wiring would leave out.
    #[error("tensor {first} has no place in this architecture ({count} such tensors): the result would be wrong")]
    UnusedTensors {
        /// The first of them.
        first: String,
        /// How many there are.
        count: usize,
    },
}
