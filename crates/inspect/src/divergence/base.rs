//! A base that many models are measured against: what it says of a text is computed once and kept in memory.

use candor::{Session, Windows};

use super::{
    error::Error,
    figures::{self, Divergence},
};

/// The logits of a base for the scored tokens of some windows.
pub struct Base<'a> {
    windows: Windows<'a>,
    vocabulary: usize,
    /// `[scored tokens, vocabulary]`.
    logits: Vec<f32>,
}

impl<'a> Base<'a> {
    /// Runs the base over the windows. Four bytes are kept for each scored token and each of the vocabulary.
    ///
    /// # Errors
    /// If a window does not fit the session, the model does not run, or memory is short.
    pub fn new(session: &mut Session, windows: Windows<'a>) -> Result<Base<'a>, Error> {
        let (vocabulary, scored) = (session.model().config().vocab, windows.scored());
        let mut logits = Vec::new();
        let room = windows.count().saturating_mul(scored.len()).saturating_mul(vocabulary);
        logits.try_reserve_exact(room).map_err(|_| Error::Memory { bytes: room.saturating_mul(4) })?;
        for number in 0..windows.count() {
            let input = windows.input(number);
            session.truncate(0);
            session.evaluate(&input[..scored.start])?;
            session.evaluate_each(&input[scored.clone()], |_, row| logits.extend_from_slice(row))?;
        }
        Ok(Base { windows, vocabulary, logits })
    }

    /// Tokens that are scored.
    pub fn tokens(&self) -> usize {
        self.windows.count() * self.windows.scored().len()
    }

    /// Measures a model against it, as [`super::of_models`] does.
    ///
    /// # Errors
    /// If the vocabularies differ, a window does not fit the session, or the model does not run.
    pub fn divergence(&self, model: &mut Session) -> Result<Divergence, Error> {
        same_vocabulary(self.vocabulary, model)?;
        let (windows, scored) = (&self.windows, self.windows.scored());
        let mut found = Divergence::new(windows.window());
        let mut base = self.logits.chunks_exact(self.vocabulary);
        for number in 0..windows.count() {
            let input = windows.input(number);
            model.truncate(0);
            model.evaluate(&input[..scored.start])?;
            model.evaluate_each(&input[scored.clone()], |row, logits| {
                if let Some(base) = base.next() {
                    let at = scored.start + row;
                    found.add(at, windows.next(number, at), &figures::log_softmax(base), f64::NEG_INFINITY, logits);
                }
            })?;
            finite(&found, (number + 1) * windows.window())?;
        }
        Ok(found)
    }
}

/// Both have to predict the same tokens.
pub(super) fn same_vocabulary(base: usize, model: &Session) -> Result<(), Error> {
    let model = model.model().config().vocab;
    if base == model { Ok(()) } else { Err(Error::Vocabulary { base, model }) }
}

/// Whether what was found up to a position is finite.
pub(super) fn finite(found: &Divergence, position: usize) -> Result<(), Error> {
    if found.is_finite() { Ok(()) } else { Err(candor::Error::NotFinite { position }.into()) }
}
