//! A text, a model and its windows, as the flags say.

use std::io::{self, IsTerminal};

use candor::{Encode, Model, Session, Windows};

use crate::{
    answer,
    args::PerplexityArgs,
    errors::Error,
    open::{Opened, Source},
    output::say,
    report, text,
    waiting::Waiting,
};

/// The text that is measured.
///
/// # Errors
/// If no text is given, or it cannot be read.
pub fn text(args: &PerplexityArgs) -> Result<String, Error> {
    match &args.file {
        Some(path) => text::of_file(path),
        None if io::stdin().is_terminal() => Err(Error::NoText),
        None => text::of_stdin(),
    }
}

/// A model, and a session of it for windows of `window` tokens.
pub fn open(args: &PerplexityArgs, source: Source, window: u32) -> Result<(Opened, Session), Error> {
    let session = answer::session_options(window, &args.cache, &args.performance);
    let opened = source.open(&args.performance, args.lora.open()?, session, &args.output)?;
    let session = opened.model.session(&session)?;
    Ok((opened, session))
}

pub fn tokens(args: &PerplexityArgs, model: &Model, text: String) -> Vec<u32> {
    let _waiting = Waiting::new(args.output.progress, "making tokens");
    model.tokenizer().encode(&text::without_last_break(text), Encode { bos: true, specials: false })
}

/// As many windows of a text as the flags ask for.
pub fn windows<'a>(
    args: &PerplexityArgs,
    model: &Model,
    tokens: &'a [u32],
    window: usize,
) -> Result<Windows<'a>, Error> {
    let windows = Windows::new(model, tokens, window)?;
    Ok(match args.chunks {
        Some(most) => windows.first(most as usize),
        None => windows,
    })
}

pub fn note(args: &PerplexityArgs, opened: &Opened, session: &Session, windows: &Windows<'_>) {
    if args.output.verbose {
        report::say_model(opened, session, &args.cache, &args.performance);
        say!("text: {} tokens, {} windows of {}", windows.tokens().len(), windows.count(), windows.window());
        say!("load: {:.3} s", opened.load.as_secs_f64());
    }
}
