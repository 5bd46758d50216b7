//! How far a model's predictions are from another's: the Kullback-Leibler divergence of their probabilities over a text, by the
//! windows and with the figures of llama-perplexity.

mod base;
mod error;
mod figures;
mod logits_file;

use candor::{Session, Windows};

use base::{finite, same_vocabulary};

pub use base::Base;
pub use error::Error;
pub use figures::{Divergence, Estimate, Figures, Place, Spread};
pub use logits_file::{LogitsReader, LogitsWriter};

/// Rows of logits of the base that are kept until the model has its own.
const ROWS: usize = 64;

/// Measures a model against another, side by side: nothing is rounded and no file is needed. `progress` hears what is known after each
/// window.
///
/// # Errors
/// If the vocabularies differ, a window does not fit a session, or a model does not run.
pub fn of_models(
    base: &mut Session,
    model: &mut Session,
    windows: &Windows<'_>,
    mut progress: impl FnMut(&Divergence, usize),
) -> Result<Divergence, Error> {
    same_vocabulary(base.model().config().vocab, model)?;
    let (scored, mut found) = (windows.scored(), Divergence::new(windows.window()));
    for number in 0..windows.count() {
        let input = windows.input(number);
        for session in [&mut *base, &mut *model] {
            session.truncate(0);
            session.evaluate(&input[..scored.start])?;
        }
        let mut at = scored.start;
        for rows in input[scored.clone()].chunks(ROWS) {
            let mut likely = Vec::with_capacity(rows.len());
            base.evaluate_each(rows, |_, logits| likely.push(figures::log_softmax(logits)))?;
            model.evaluate_each(rows, |row, logits| {
                found.add(at + row, windows.next(number, at + row), &likely[row], f64::NEG_INFINITY, logits);
            })?;
            at += rows.len();
        }
        finite(&found, (number + 1) * windows.window())?;
        progress(&found, windows.count());
    }
    Ok(found)
}

/// Measures a model against the probabilities that [`LogitsWriter`] or llama-perplexity kept of another, on the text of that file.
///
/// # Errors
/// If the vocabularies differ, a window does not fit the session, the file cannot be read, or the model does not run.
pub fn of_file(
    mut base: LogitsReader,
    model: &mut Session,
    mut progress: impl FnMut(&Divergence, usize),
) -> Result<Divergence, Error> {
    same_vocabulary(base.vocabulary(), model)?;
    let tokens = base.tokens().to_vec();
    let windows = Windows::new(model.model(), &tokens, base.window())?;
    let (scored, mut found) = (windows.scored(), Divergence::new(windows.window()));
    for number in 0..windows.count() {
        let input = windows.input(number);
        model.truncate(0);
        model.evaluate(&input[..scored.start])?;
        let mut read = Ok(());
        model.evaluate_each(&input[scored.clone()], |row, logits| {
            if read.is_ok() {
                let at = scored.start + row;
                read = base.read().map(|likely| {
                    found.add(at, windows.next(number, at), likely, LogitsReader::FLOOR, logits);
                });
            }
        })?;
        read?;
        finite(&found, (number + 1) * windows.window())?;
        progress(&found, windows.count());
    }
    Ok(found)
}
