//! Why a file is no adapter, or not one of a model.

/// Why a file is no adapter, or not one of a model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file's metadata has something in the wrong type.
    #[error(transparent)]
    Gguf(#[from] candor_gguf::Error),
    /// A model, say.
    #[error("metadata key general.type: expected \"adapter\", got {got:?}")]
    NoAdapter {
        /// What the file says that it is.
        got: String,
    },
    /// Directions to add to the stream.
    #[error("the file is a control vector, which is not supported: expected a LoRA adapter")]
    ControlVector,
    /// Another kind of adapter.
    #[error("metadata key adapter.type: expected \"lora\", got {got:?}")]
    Kind {
        /// The file's kind.
        got: String,
    },
    /// A LoRA that begins to work at certain tokens.
    #[error("the file is an aLoRA (metadata key adapter.alora.invocation_tokens), which is not supported")]
    Activated,
    /// A factor that is no number.
    #[error("metadata key adapter.lora.alpha: expected a finite number, got {got}")]
    Alpha {
        /// The file's.
        got: f32,
    },
    /// There is nothing in it.
    #[error("the file has no tensors")]
    Empty,
    /// A tensor that is no half of a change.
    #[error("tensor {tensor}: expected a name that ends with .lora_a or .lora_b")]
    Suffix {
        /// The tensor.
        tensor: String,
    },
    /// Half a change.
    #[error("tensor {target}.{missing} is missing, the other half is there")]
    Half {
        /// What it changes.
        target: String,
        /// The half that is not there.
        missing: &'static str,
    },
    /// Made for other models.
    #[error("architecture: expected {expected} as the model's, got {got}")]
    Architecture {
        /// The model's.
        expected: String,
        /// The adapter's.
        got: String,
    },
    /// A change of something that the model does not have.
    #[error("tensor {target} is not in the model")]
    NoTarget {
        /// What would be changed.
        target: String,
    },
    /// Dimensions that are not those of the model's tensor.
    #[error("tensor {tensor}: expected {expected:?}, got {got:?}")]
    Shape {
        /// The half.
        tensor: String,
        /// Dimensions that would fit.
        expected: Vec<u64>,
        /// Its dimensions.
        got: Vec<u64>,
    },
    /// The embedding is the output as well.
    #[error("tensor {target}: in this model it is the output, too, and an adapter of it does not say which it changes")]
    Tied {
        /// The embedding.
        target: String,
    },
    /// A change of a weight that is not multiplied with.
    #[error("tensor {target}: the model multiplies nothing with it, so that its change would be lost")]
    NoProduct {
        /// What would be changed.
        target: String,
    },
}
