//! A base that many models are measured against: what it says of a text is computed once and kept in memory.

use candor::{Session, Windows};

use super::{Divergence, Error, figures, finite, same_vocabulary};

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
