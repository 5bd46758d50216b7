//! The text side of a diagnosis: what a foreign engine did besides arithmetic. Template, token ids, context, the choice
//! of tokens, stopping, and ids back to text are each recomputed from what the suspect itself had before, and where it
//! had something else the faults of a catalogue are run until one gives exactly that. Values of a forward pass are
//! `crate::diagnose`.

mod choice;
mod choosing;
mod decoding;
mod difference;
mod error;
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
mod step;
mod stopping;
mod tokenizing;

use candor::Gguf;

pub use difference::{Difference, Piece};
pub use error::TextError;
pub use report::{Explanation, TextCheck, TextOutcome, TextReport, Verdict};
pub use row::TextFault;
pub use said::{Penalised, Reading, Said};

use row::Row;
use scene::Scene;

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
    let rows: Vec<&Row> = rows().collect();
    let checks = vec![
        rendering::check(&scene, &rows),
        prompt::check(&scene, &rows),
        framing::check_context(&scene, &rows),
        choice::check(&scene, &rows),
        stopping::check(&scene, &rows),
        decoding::check(&scene, &rows),
        invariants::check(&scene, &rows),
    ];
    Ok(TextReport::new(checks))
}
