//! `candor perplexity`: how well a model predicts a text, and how far that is from another model, measured as llama-perplexity does.

mod divergence;
mod given;

use std::{
    fs::File,
    io::{self, Read, Write},
    path::Path,
    process::ExitCode,
    time::Instant,
};

use candor_inspect::divergence::LogitsWriter;

use crate::{
    args::{Line, PerplexityArgs},
    errors::Error,
    interrupt::Cleanup,
    open::Source,
    output::{Speed, say},
    waiting::Waiting,
};

/// Runs the command.
pub fn perplexity(args: &PerplexityArgs, line: &Line) -> Result<ExitCode, Error> {
    let source = Source::of(line, &args.model)?.overridden(&args.overrides, line)?;
    if args.divergence.kl_divergence {
        return divergence::divergence(args, source, line);
    }
    let kept = args.divergence.kl_divergence_base.as_deref();
    kept.map(refuse_model).transpose()?;
    let text = given::text(args)?;
    let (opened, mut session) = given::open(args, source, args.ctx_size)?;
    let tokens = given::tokens(args, &opened.model, text);
    let windows = given::windows(args, &opened.model, &tokens, args.ctx_size as usize)?;
    given::note(args, &opened, &session, &windows);
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

/// A model is not written over: who names one wants to measure against it.
fn refuse_model(path: &Path) -> Result<(), Error> {
    let mut start = [0; 4];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut start));
    match read.is_ok() && &start == b"GGUF" {
        true => Err(Error::OntoModel { path: path.to_owned() }),
        false => Ok(()),
    }
}
