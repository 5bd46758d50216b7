//! The text side of a diagnosis: what a foreign engine did besides arithmetic. Template, token ids, context, the choice
//! of tokens, stopping, and ids back to text are each recomputed from what the suspect itself had before, and where it
//! had something else the faults of a catalogue are run until one gives exactly that. Values of a forward pass are
//! `crate::diagnose`.

mod choice;
mod choosing;
mod decoding;
mod difference;
mod families;
mod framing;
mod invariants;
mod prompt;
mod rendering;
mod report;
mod row;
mod said;
mod scene;
mod segmentation;
mod stopping;
mod tokenizing;

use candor::Gguf;

pub use difference::{Difference, Piece};
pub use report::{Explanation, TextCheck, TextOutcome, TextReport, Verdict};
pub use row::TextFault;
pub use said::{Penalised, Reading, Said};

use row::Row;
use scene::Scene;

/// Why what was said cannot be checked at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// The file has no vocabulary that is built in.
    #[error("vocabulary: {0}")]
    Tokenizer(#[from] candor::error::TokenizerError),
    /// A metadata value has another type than it should.
    #[error(transparent)]
    Metadata(#[from] candor_gguf::Error),
    /// Nothing was said.
    #[error("evidence: expected a prompt, ids, a text or logits, got nothing")]
    Nothing,
}

/// Every known fault of this side.
pub fn text_catalogue() -> impl Iterator<Item = &'static TextFault> {
    rows().map(|row| &row.fault)
}

fn rows() -> impl Iterator<Item = &'static Row> {
    let parts = [
        rendering::ROWS,
        families::ROWS,
        tokenizing::ROWS,
        framing::ROWS,
        prompt::ROWS,
        choosing::ROWS,
        stopping::ROWS,
        decoding::ROWS,
        invariants::ROWS,
    ];
    parts.into_iter().flatten()
}

/// Checks what is known of a foreign engine's run of the model in `gguf`, and names the faults that reproduce it.
///
/// # Errors
/// If the file has no vocabulary, or nothing was said.
pub fn check_text(gguf: &Gguf, said: &Said) -> Result<TextReport, TextError> {
    if said.is_empty() {
        return Err(TextError::Nothing);
    }
    let scene = Scene::new(gguf, said)?;
    let checks = vec![
        rendering::check(&scene),
        prompt::check(&scene),
        framing::check_context(&scene),
        choice::check(&scene),
        stopping::check(&scene),
        decoding::check(&scene),
        invariants::check(&scene),
    ];
    Ok(TextReport::new(checks))
}
