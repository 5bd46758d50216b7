//! The text of a session whose model answers one: what the encoder has read.

use candor_ops::Step;

use super::Session;
use crate::{Error, Observer};

impl Session {
    /// The text that was read, by its tokens; empty where the model has no encoder.
    pub fn text(&self) -> &[u32] {
        &self.text
    }

    /// Has the model's encoder read a text and forgets all tokens: those to come, of which
    /// [`Config::start`](candor_models::Config::start) is the first, answer it. The text that was read last is not read again.
    ///
    /// # Errors
    /// If the model has no encoder, the text has no tokens, too many or one outside of the vocabulary, or the device fails.
    pub fn read_text(&mut self, text: &[u32]) -> Result<(), Error> {
        self.truncate(0);
        if text.is_empty() || self.text != text {
            self.encode(text, None)?;
        }
        Ok(())
    }

    /// [`Session::read_text`], of any text anew, and every named value is shown to `observer`.
    ///
    /// # Errors
    /// As there.
    pub fn observe_text(&mut self, text: &[u32], observer: &mut dyn Observer) -> Result<(), Error> {
        self.truncate(0);
        self.encode(text, Some(observer))
    }

    /// Has the encoder read a text.
    pub(super) fn encode(&mut self, text: &[u32], observer: Option<&mut dyn Observer>) -> Result<(), Error> {
        if !self.model.answers() {
            return Err(Error::NoEncoder { arch: self.model.architecture().to_owned() });
        }
        if text.is_empty() {
            return Err(Error::EmptyPrompt);
        }
        self.fits(text)?;
        // After an error there is none.
        self.text.clear();
        let (positions, sequences) = ((0..text.len() as u32).collect::<Vec<_>>(), vec![0; text.len()]);
        let step = Step { tokens: text, positions: &positions, sequences: &sequences, outputs: &[], decoding: 0 };
        self.run.encode(step, observer)?;
        self.text.extend_from_slice(text);
        Ok(())
    }
}
