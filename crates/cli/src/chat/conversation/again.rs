//! Going back in a conversation: the last answer again, the last exchange taken back, the last message changed.

use super::{Conversation, Flow, say};
use crate::{chat::saved::Role, errors::Error, text};

impl Conversation<'_> {
    /// Answers the last message again: one whose answer failed, or instead of the answer that there is. If that fails, the
    /// conversation is as before.
    pub(super) fn regenerate(&mut self) -> Result<(), Error> {
        // A fixed seed would give the same answer.
        self.again = self.again.wrapping_add(1);
        match self.failed.take() {
            Some(message) => self.exchange(&message),
            None => {
                let start = self.last_exchange()?;
                let message = self.turns[start].content.clone();
                self.replace(start, &message)
            }
        }
    }

    /// Answers another message instead of the last one; without one, has the user type it.
    pub(super) fn edit(&mut self, argument: &str) -> Result<Flow, Error> {
        let start = self.last_exchange();
        let last = match (&self.failed, &start) {
            (Some(message), _) => message,
            (None, Ok(start)) => &self.turns[*start].content,
            (None, Err(_)) => return Err(Error::NothingSaid),
        };
        if argument.is_empty() {
            return Ok(Flow::Type(format!("/edit {last}")));
        }
        self.again = 0;
        match self.failed.take() {
            Some(_) => self.exchange(argument)?,
            None => self.replace(start?, argument)?,
        }
        Ok(Flow::GoOn)
    }

    /// Takes the last exchange back.
    pub(super) fn undo(&mut self) -> Result<(), Error> {
        let message = match self.failed.take() {
            Some(message) => message,
            None => {
                let start = self.last_exchange()?;
                let message = self.turns[start].content.clone();
                self.turns.truncate(start);
                message
            }
        };
        say!("taken back: {}", text::shown(&message));
        Ok(())
    }

    /// Where the last message of the user is.
    fn last_exchange(&self) -> Result<usize, Error> {
        self.turns.iter().rposition(|turn| turn.role == Role::User).ok_or(Error::NothingSaid)
    }

    /// Answers a message instead of what was said from `start` on.
    fn replace(&mut self, start: usize, message: &str) -> Result<(), Error> {
        let old = self.turns.split_off(start);
        let answered = self.exchange(message);
        if self.turns.len() == start {
            self.turns.extend(old);
            self.failed = None;
        }
        answered
    }
}
