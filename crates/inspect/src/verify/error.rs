//! What can be wrong with what is to be verified.

use std::{io, path::PathBuf};

/// Why nothing could be verified.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// The model does not load or run.
    #[error(transparent)]
    Candor(#[from] candor::Error),
    /// A file cannot be read for its hash.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        error: io::Error,
    },
    /// More tokens than the oracle takes.
    #[error("{what}: expected at most {most} tokens, got {got}")]
    TooLong {
        /// `prompt` or `decode`.
        what: &'static str,
        /// The most.
        most: usize,
        /// Tokens asked for.
        got: usize,
    },
    /// The trace does not say what was run.
    #[error("trace: it has no token ids; give the prompt as ids")]
    NoTokens,
    /// The trace's tokens are at places that a fresh run does not have.
    #[error("trace: expected positions from 0 on, got position {got} for token {index}")]
    Positions {
        /// Index of the token.
        index: usize,
        /// Its position in the trace.
        got: u32,
    },
}
