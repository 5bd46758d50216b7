//! The tokens that a command runs: ids, or a prompt as it is.

use std::io::{self, IsTerminal};

use candor::Model;

use crate::{
    args::{Line, inspect::TokensArgs},
    errors::Error,
    text,
};

/// What was given.
pub enum Given {
    /// A prompt.
    Text(String),
    /// Token ids.
    Ids(Vec<u32>),
}

impl Given {
    /// What the arguments give, or what comes through stdin.
    pub fn of(args: &TokensArgs, line: &Line) -> Result<Given, Error> {
        Ok(match (line.exclusive(&["prompt", "ids", "file"])?, args) {
            (Some("prompt"), TokensArgs { prompt: Some(prompt), .. }) => Given::Text(prompt.clone()),
            (Some("ids"), TokensArgs { ids: Some(ids), .. }) => Given::Ids(ids.0.clone()),
            (Some("file"), TokensArgs { file: Some(path), .. }) => {
                Given::Text(text::without_last_break(text::of_file(path)?))
            }
            _ if io::stdin().is_terminal() => return Err(Error::NoPrompt),
            _ => Given::Text(text::without_last_break(text::of_stdin()?)),
        })
    }

    /// The tokens: of a prompt as `candor run --raw` has them.
    ///
    /// # Errors
    /// If there are none.
    pub fn tokens(&self, model: &Model) -> Result<Vec<u32>, Error> {
        let tokens = match self {
            Given::Text(text) => model.encode_prompt(text),
            Given::Ids(ids) => ids.clone(),
        };
        if tokens.is_empty() { Err(candor::Error::EmptyPrompt.into()) } else { Ok(tokens) }
    }

    /// The prompt.
    pub fn text(&self) -> Option<&str> {
        match self {
            Given::Text(text) => Some(text),
            Given::Ids(_) => None,
        }
    }
}
