//! `/set num_ctx N`: another length of the context, in a new session that goes on with the conversation.

use super::{Conversation, open_session};
use crate::{args::number, chat::length::NAME, errors::Error, output::say};

impl Conversation<'_> {
    /// Gives the context another length; 0 leaves it open. Where that fails, all is as before.
    pub(super) fn resize(&mut self, value: &str) -> Result<(), Error> {
        let length = number::whole(0..=u32::MAX)(value);
        let length = length
            .map_err(|problem| Error::Setting(format!("invalid value '{value}' for '--{NAME} <N>': {problem}")))?;
        self.reopen(|this| {
            let session = open_session(this.args, length, &this.opened, &this.guesses)?;
            (this.session, this.ctx_size) = (session, length);
            Ok(())
        })?;
        self.window.widen();
        self.note_setting(NAME, vec![length.to_string()]);
        say!("context: {} tokens", self.session.context());
        Ok(())
    }

    /// Gives back the session's memory and has `open` take another; if that fails, a session as before is opened.
    pub(super) fn reopen(&mut self, open: impl FnOnce(&mut Self) -> Result<(), Error>) -> Result<(), Error> {
        // Two sessions at once may be more than memory holds.
        self.session = self.opened.model.session(&candor::SessionOptions::default().context(1).fit(false))?;
        let opened = open(self);
        if opened.is_err() {
            self.session = open_session(self.args, self.ctx_size, &self.opened, &self.guesses)?;
        }
        opened
    }
}
