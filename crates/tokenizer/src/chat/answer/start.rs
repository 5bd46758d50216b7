//! What an answer says before its content.

/// What an answer says before its content: where a grammar of the content begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerStart {
    /// Nothing.
    Content,
    /// Reasoning, until its mark closes it, and white space.
    Reasoning {
        /// What opens it, if the answer does; `None` where the prompt has opened it.
        open: Option<&'static str>,
        /// What closes it.
        close: &'static str,
    },
    /// Messages with a header each, until one whose header names the channel of content (gpt-oss).
    Messages {
        /// What is in front of a channel's name.
        channel: &'static str,
        /// The channel of content.
        name: &'static str,
        /// What ends a header.
        message: &'static str,
    },
}
