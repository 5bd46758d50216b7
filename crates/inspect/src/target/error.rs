//! Why no formats are chosen.

use super::limit::Limit;
use crate::{divergence, imatrix};

/// Why nothing is chosen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The smallest choice is larger.
    #[error("the smallest that can be made is {least}")]
    TooSmall {
        /// As it was asked for.
        least: Limit,
    },
    /// The mixture decides of no tensor.
    #[error("there is no tensor to choose a format for")]
    Nothing,
    /// Each tensor is measured at least once.
    #[error("{runs} runs are too few: {least} are needed")]
    Runs {
        /// What was asked for.
        runs: usize,
        /// One for each tensor, and one for all together.
        least: usize,
    },
    /// A file cannot be planned, or weights not encoded.
    #[error(transparent)]
    Convert(#[from] candor_convert::Error),
    /// The model does not run.
    #[error(transparent)]
    Divergence(#[from] divergence::Error),
    /// What matrices are multiplied with can't be summed.
    #[error(transparent)]
    Imatrix(#[from] imatrix::Error),
}

impl From<candor::Error> for Error {
    fn from(error: candor::Error) -> Error {
        Error::Divergence(error.into())
    }
}
