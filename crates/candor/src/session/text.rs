//! The text of a session whose model answers one: what the encoder has read.

use super::Session;
use crate::{Error, Observer, now::now};

impl Session {
    /// The text that was read, by its tokens; empty where the model has no encoder.
    pub fn text(&self) -> &[u32] {
        &self.sequence().text
    }

    /// Has the model's encoder read a text and forgets all tokens: those to come, of which
    /// [`Config::start`](candor_models::Config::start) is the first, answer it. The text that was read last is not read again.
    ///
    /// # Errors
    /// If the model has no encoder, the text has no tokens, too many or one outside of the vocabulary, or the device fails.
    pub fn read_text(&mut self, text: &[u32]) -> Result<(), Error> {
        now(self.read_text_body(text))
    }

    /// What [`Self::read_text`] does.
    pub(crate) async fn read_text_body(&mut self, text: &[u32]) -> Result<(), Error> {
        self.truncate(0);
        if text.is_empty() || self.text() != text {
            self.batch.read_text_body(self.id, text, None).await?;
        }
        Ok(())
    }

    /// [`Session::read_text`], of any text once more, and every named value is shown to `observer`.
    ///
    /// # Errors
    /// As there.
    pub fn observe_text(&mut self, text: &[u32], observer: &mut dyn Observer) -> Result<(), Error> {
        now(self.observe_text_body(text, observer))
    }

    /// What [`Self::observe_text`] does.
    pub(crate) async fn observe_text_body(&mut self, text: &[u32], observer: &mut dyn Observer) -> Result<(), Error> {
        self.truncate(0);
        self.batch.read_text_body(self.id, text, Some(observer)).await
    }
}
