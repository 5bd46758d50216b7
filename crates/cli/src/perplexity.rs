//! `candor perplexity`: how well a model predicts a text, measured as llama-perplexity does.

use std::{
    io::{self, IsTerminal, Write},
    process::ExitCode,
};

use candor::Encode;

use crate::{
    answer,
    args::{Line, PerplexityArgs},
    errors::Error,
    open::Source,
    output::{Speed, say},
    report, text,
    waiting::Waiting,
};

/// Runs the command.
pub fn perplexity(args: &PerplexityArgs, line: &Line) -> Result<ExitCode, Error> {
    let source = Source::of(line, &args.model)?.overridden(&args.overrides, line)?;
    let text = match &args.file {
        Some(path) => text::of_file(path)?,
        None if io::stdin().is_terminal() => return Err(Error::NoText),
        None => text::of_stdin()?,
    };
    let session = answer::session_options(args.ctx_size, &args.cache, &args.performance);
    let opened = source.open(&args.performance, args.lora.open()?, session, &args.output)?;
    let waiting = Waiting::new(args.output.progress, "making tokens");
    let tokens =
        opened.model.tokenizer().encode(&text::without_last_break(text), Encode { bos: true, specials: false });
    drop(waiting);
    let mut session = opened.model.session(&session)?;
    if args.output.verbose {
        report::say_model(&opened, &session, &args.cache, &args.performance);
        say!("text: {} tokens, windows of {}", tokens.len(), args.ctx_size);
        say!("load: {:.3} s", opened.load.as_secs_f64());
    }
    let started = std::time::Instant::now();
    // Windows that take long each have a spinner of their own between the lines.
    let computing = || Some(Waiting::new(args.output.progress, "computing"));
    let mut waiting = computing();
    let result = candor::perplexity(&mut session, &tokens, |so_far, windows| {
        drop(waiting.take());
        say!("[{}/{windows}] {:.4}", so_far.windows, so_far.value);
        waiting = computing();
    })?;
    drop(waiting);
    if args.output.verbose {
        say!("prompt: {}", Speed(result.windows * args.ctx_size as usize, started.elapsed()));
    }
    let mut out = io::stdout().lock();
    writeln!(out, "Final estimate: PPL = {:.4} +/- {:.5}", result.value, result.error)?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
