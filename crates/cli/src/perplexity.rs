//! `candor perplexity`: how well a model predicts a text, and how far that is from another model, measured as llama-perplexity does.

mod divergence;

use std::{
    io::{self, IsTerminal, Write},
    process::ExitCode,
    time::Instant,
};

use candor::{Encode, Model, Session, Windows};
use candor_inspect::divergence::LogitsWriter;

use crate::{
    answer,
    args::{Line, PerplexityArgs},
    errors::Error,
    interrupt::Cleanup,
    open::{Opened, Source},
    output::{Speed, say},
    report, text,
    waiting::Waiting,
};

/// Runs the command.
pub fn perplexity(args: &PerplexityArgs, line: &Line) -> Result<ExitCode, Error> {
    let source = Source::of(line, &args.model)?.overridden(&args.overrides, line)?;
    if args.divergence.kl_divergence {
        return divergence::divergence(args, source, line);
    }
    let text = text(args)?;
    let (opened, mut session) = open(args, source, args.ctx_size)?;
    let tokens = tokens(args, &opened.model, text);
    let windows = windows(args, &opened.model, &tokens, args.ctx_size as usize)?;
    note(args, &opened, &session, &windows);
    let kept = args.divergence.kl_divergence_base.as_deref();
    let _cleanup = Cleanup::of_files(kept.map(LogitsWriter::draft).into_iter().collect());
    let vocabulary = opened.model.config().vocab;
    let mut kept = kept.map(|path| LogitsWriter::create(path, &windows, vocabulary)).transpose()?;
    let mut written = Ok(());
    let each = |logits: &[f32], _| {
        if let (Some(kept), Ok(())) = (&mut kept, &written) {
            written = kept.write(logits);
        }
    };
    let started = Instant::now();
    // Windows that take long each have a spinner of their own between the lines.
    let computing = || Some(Waiting::new(args.output.progress, "computing"));
    let mut waiting = computing();
    let result = candor::score(&mut session, &windows, each, |so_far, windows| {
        drop(waiting.take());
        say!("[{}/{windows}] {:.4}", so_far.windows, so_far.value);
        waiting = computing();
    })?;
    drop(waiting);
    written?;
    kept.map(LogitsWriter::finish).transpose()?;
    if args.output.verbose {
        say!("prompt: {}", Speed(result.windows * args.ctx_size as usize, started.elapsed()));
    }
    let mut out = io::stdout().lock();
    writeln!(out, "Final estimate: PPL = {:.4} +/- {:.5}", result.value, result.error)?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// The text that is measured.
///
/// # Errors
/// If there is none, or it cannot be read.
fn text(args: &PerplexityArgs) -> Result<String, Error> {
    match &args.file {
        Some(path) => text::of_file(path),
        None if io::stdin().is_terminal() => Err(Error::NoText),
        None => text::of_stdin(),
    }
}

/// A model, and a session of it for windows of `window` tokens.
fn open(args: &PerplexityArgs, source: Source, window: u32) -> Result<(Opened, Session), Error> {
    let session = answer::session_options(window, &args.cache, &args.performance);
    let opened = source.open(&args.performance, args.lora.open()?, session, &args.output)?;
    let session = opened.model.session(&session)?;
    Ok((opened, session))
}

fn tokens(args: &PerplexityArgs, model: &Model, text: String) -> Vec<u32> {
    let _waiting = Waiting::new(args.output.progress, "making tokens");
    model.tokenizer().encode(&text::without_last_break(text), Encode { bos: true, specials: false })
}

/// As many windows of a text as the flags ask for.
fn windows<'a>(args: &PerplexityArgs, model: &Model, tokens: &'a [u32], window: usize) -> Result<Windows<'a>, Error> {
    let windows = Windows::new(model, tokens, window)?;
    Ok(match args.chunks {
        Some(most) => windows.first(most as usize),
        None => windows,
    })
}

fn note(args: &PerplexityArgs, opened: &Opened, session: &Session, windows: &Windows<'_>) {
    if args.output.verbose {
        report::say_model(opened, session, &args.cache, &args.performance);
        say!("text: {} tokens, {} windows of {}", windows.tokens().len(), windows.count(), windows.window());
        say!("load: {:.3} s", opened.load.as_secs_f64());
    }
}
