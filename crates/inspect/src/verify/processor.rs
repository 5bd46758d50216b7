//! The check before a processor's first token, as a server makes it: the one that a GPU passes before a model is loaded on it.

use candor::{Gguf, LoadOptions, checked};
use candor_verify::Operations;

use super::error::VerifyError;

/// Holds the processor's operations against the formulas: those of a model's first layers, as many as have all that any of
/// them has, and its head, for a prompt and a token after it. A sample of each product's outputs is checked.
///
/// `options` say which kernels and threads, and the formats of the cache.
///
/// # Errors
/// If the model cannot be run. That an operation is wrong is what [`Operations::failure`] says.
pub fn processor(gguf: &Gguf, options: &LoadOptions) -> Result<Operations, VerifyError> {
    Ok(checked::quick(gguf, options)?)
}
