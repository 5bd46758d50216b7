//! Why no divergence is measured.

use std::path::PathBuf;

/// Why no divergence is measured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// A file is not llama-perplexity's.
    #[error("{}: {problem}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// Both have to predict the same tokens.
    #[error("the base has {base} tokens in its vocabulary, the model {model}")]
    Vocabulary {
        /// Of the base.
        base: usize,
        /// Of the model.
        model: usize,
    },
    /// What a base says is kept in memory.
    #[error("memory is short for the base's logits: {bytes} bytes")]
    Memory {
        /// What they take.
        bytes: usize,
    },
    /// A model does not run.
    #[error(transparent)]
    Model(#[from] candor::Error),
}
