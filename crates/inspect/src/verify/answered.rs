//! An answer that was given, operation by operation: what a server does where someone doubts it.

use candor::{Activations, Gguf, LoadOptions};
use candor_verify::{Depth, Operations, Plan};

use super::{
    error::VerifyError,
    limits::{MAX_DECODE, MAX_PROMPT},
};

/// Runs a prompt and the tokens that were written after it, and holds every operation against the formulas: a sample of each
/// product's outputs, all of the others. Only the first [`MAX_PROMPT`] and [`MAX_DECODE`] tokens are run:
/// [`Operations::tokens`] has those. The last written token is left out: nothing was computed from it.
///
/// `options` say on which device, and the formats of the cache. Weights are loaded once more.
///
/// # Errors
/// If the prompt is empty, or the model cannot be run. That an operation is wrong is what [`Operations::failure`] says.
pub fn answered(
    gguf: &Gguf,
    options: &LoadOptions,
    prompt: &[u32],
    written: &[u32],
) -> Result<Operations, VerifyError> {
    if prompt.is_empty() {
        return Err(candor::Error::EmptyPrompt.into());
    }
    let short = &prompt[..prompt.len().min(MAX_PROMPT)];
    let after = match written {
        [after @ .., _] if short.len() == prompt.len() => &after[..after.len().min(MAX_DECODE)],
        _ => &[],
    };
    let exact = options.activations == Activations::F32;
    let (keys, values) = (options.session.keys, options.session.values);
    let (text, depth, decode) = (&[], Depth::Quick, after.len());
    let plan = Plan { text, prompt: short, decode, after, depth, keys, values, exact, part: None };
    Ok(candor::checked::operations(gguf, options, &plan)?)
}
