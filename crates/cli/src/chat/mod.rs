//! `candor chat`: a conversation. Reads an entry, acts on it or answers it, and so on until the user leaves.

mod commands;
mod completer;
mod conversation;
mod editor;
mod length;
mod multiline;
mod saved;
mod tty;
mod window;

use std::process::ExitCode;

use crate::{
    args::{ChatArgs, Line},
    errors::Error,
    interrupt::Interrupt,
    output::say,
    text,
};
use commands::Command;
use conversation::{Conversation, Flow};
use editor::{Entry, Input};

/// Runs the command.
pub fn chat(args: &ChatArgs, line: &Line) -> Result<ExitCode, Error> {
    let interrupt = Interrupt::catch()?;
    let mut first = first(args, line)?;
    let mut conversation = Conversation::begin(args, line, &interrupt)?;
    if let Some(path) = &args.begin.load {
        conversation.load(path)?;
    }
    let mut input = Input::new();
    if input.is_interactive() {
        say!("candor {}, {}. /help lists the commands.", env!("CARGO_PKG_VERSION"), conversation.model_name());
    }
    let mut failed = false;
    loop {
        let done = match first.take() {
            Some(message) => {
                if input.is_interactive() {
                    say!("> {message}");
                }
                conversation.answer(&message).map(|()| Flow::GoOn)
            }
            None => match input.next()? {
                Entry::Text(text) => act(&mut conversation, &text),
                Entry::Interrupt => {
                    say!("(Ctrl-D or /exit leaves)");
                    continue;
                }
                Entry::End => break,
            },
        };
        match done.and_then(|flow| settle(&mut conversation, &mut input, flow)) {
            Ok(Flow::Leave) => break,
            Ok(_) => {}
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

/// The message that the command line gives.
fn first(args: &ChatArgs, line: &Line) -> Result<Option<String>, Error> {
    let given = match line.exclusive(&["words", "prompt"])? {
        Some("words") => args.begin.words.as_ref(),
        _ => args.begin.prompt.as_ref(),
    };
    let message = given.map(|message| text::escaped(message, args.template.escape)).transpose()?;
    Ok(message.filter(|message| !message.trim().is_empty()))
}

/// Does what an entry asks for.
fn act(conversation: &mut Conversation<'_>, text: &str) -> Result<Flow, Error> {
    match commands::parse(text)? {
        Some((command, argument)) => conversation.act(command, argument),
        None if text.trim().is_empty() => Ok(Flow::GoOn),
        None => conversation.answer(&multiline::unwrapped(text)).map(|()| Flow::GoOn),
    }
}

/// Does what a command leaves to who types.
fn settle(conversation: &mut Conversation<'_>, input: &mut Input, flow: Flow) -> Result<Flow, Error> {
    match flow {
        Flow::Type(text) if !input.begin_with(&text) => return Err(Error::NoEditor),
        Flow::History(keep) => input.keep_history(keep),
        Flow::Overwrite(path) => {
            let question = format!("{} is there already. Write over it? [y/N] ", path.display());
            match input.ask(&question)? {
                Some(true) => return conversation.act(Command::SaveOver, &path.to_string_lossy()),
                Some(false) => say!("not saved"),
                None => return Err(Error::Exists { path }),
            }
        }
        flow => return Ok(flow),
    }
    Ok(Flow::GoOn)
}
