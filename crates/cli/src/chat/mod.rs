//! `candor chat`: a conversation. Reads an entry, acts on it or answers it, and so on until the user leaves.

mod commands;
mod conversation;
mod editor;
mod multiline;
mod saved;
mod window;

use std::process::ExitCode;

use crate::{
    args::{ChatArgs, Line},
    errors::Error,
    interrupt::Interrupt,
    output::say,
};
use conversation::{Conversation, Flow};
use editor::{Entry, Input};

/// Runs the command.
pub fn chat(args: &ChatArgs, line: &Line) -> Result<ExitCode, Error> {
    let interrupt = Interrupt::catch()?;
    let mut conversation = Conversation::begin(args, line, &interrupt)?;
    let mut input = Input::new();
    if input.is_interactive() {
        say!("candor {}, {}. /help lists the commands.", env!("CARGO_PKG_VERSION"), conversation.model_name());
    }
    let mut failed = false;
    loop {
        let text = match input.next()? {
            Entry::Text(text) => text,
            Entry::Interrupt => {
                say!("(Ctrl-D or /exit leaves)");
                continue;
            }
            Entry::End => break,
        };
        let done = match commands::parse(&text) {
            Ok(Some((command, argument))) => conversation.act(command, argument),
            Ok(None) if text.trim().is_empty() => Ok(Flow::GoOn),
            Ok(None) => conversation.answer(&multiline::unwrapped(&text)).map(|()| Flow::GoOn),
            Err(error) => Err(error),
        };
        match done {
            Ok(Flow::GoOn) => {}
            Ok(Flow::Leave) => break,
            Err(Error::Closed) => return Err(Error::Closed),
            Err(error) => {
                failed = true;
                error.say();
            }
        }
    }
    // A person has seen the errors; a script sees the exit code.
    Ok(if failed && !input.is_interactive() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
