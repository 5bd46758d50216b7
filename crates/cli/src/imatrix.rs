//! `candor imatrix`: which columns of a model's matrices count, measured over a text as llama-imatrix does.

use std::{
    io::{self, IsTerminal, Write},
    path::Path,
    process::ExitCode,
};

use candor::{Encode, Model, Windows};
use candor_convert::Imatrix;
use candor_inspect::imatrix::{self, Options};
use clap::error::ErrorKind;

use crate::{
    answer,
    args::{ImatrixArgs, Line},
    errors::Error,
    open::Source,
    output::say,
    text,
    waiting::Waiting,
    written::refuse_input,
};

/// Runs the command.
pub fn imatrix(args: &ImatrixArgs, line: &Line) -> Result<ExitCode, Error> {
    let mut earlier = Imatrix::default();
    for path in &args.in_file {
        earlier.merge(Imatrix::open(path)?)?;
    }
    let text = match &args.file {
        Some(path) => Some(text::of_file(path)?),
        None if !args.in_file.is_empty() => None,
        None if io::stdin().is_terminal() => return Err(Error::NoText),
        None => Some(text::of_stdin()?),
    };
    let all = match text {
        Some(text) => measured(args, line, text, earlier)?,
        None => earlier,
    };
    write(args, &all)?;
    let mut out = io::stdout().lock();
    let path = args.output_file.display();
    writeln!(out, "wrote {path}: {} matrices, {} windows of {} tokens", all.entries.len(), all.chunks, all.window)?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// What was summed before, and over a text.
fn measured(args: &ImatrixArgs, line: &Line, text: String, earlier: Imatrix) -> Result<Imatrix, Error> {
    let source = Source::of(line, &args.model)?.overridden(&args.overrides, line)?;
    for input in source.path().into_iter().chain(args.file.as_deref()) {
        refuse_input(input, &args.output_file, false)?;
    }
    let session = answer::session_options(args.ctx_size, &args.cache, &args.performance);
    let opened = source.open(&args.performance, Vec::new(), session, &args.output)?;
    let model = &opened.model;
    model.refuse_answers("candor imatrix")?;
    let waiting = Waiting::new(args.output.progress, "making tokens");
    let encode = Encode { bos: true, specials: args.parse_special };
    let tokens = model.tokenizer().encode(&text::without_last_break(text), encode);
    drop(waiting);
    let from = args.from_chunk as usize;
    let mut windows = Windows::new(model, &tokens, args.ctx_size as usize)?;
    if let Some(most) = args.chunks {
        windows = windows.first(from.saturating_add(most as usize));
    }
    if from >= windows.count() {
        let (count, window) = (windows.count(), windows.window());
        let message = format!("--from-chunk {from}: the text has {count} windows of {window} tokens");
        return Err(line.usage_error(ErrorKind::ValueValidation, message));
    }
    let mut session = model.session(&session)?;
    let computing = || Some(Waiting::new(args.output.progress, "computing"));
    let mut waiting = computing();
    let options = Options { process_output: args.process_output };
    let all = |found: &Imatrix| -> Result<Imatrix, Error> {
        let mut all = earlier.clone();
        all.merge(found.clone())?;
        all.datasets.extend(args.file.as_deref().map(Path::display).map(|path| path.to_string()));
        Ok(all)
    };
    let found = imatrix::collect(&mut session, &windows, from, options, |found, windows| {
        drop(waiting.take());
        say!("[{}/{windows}]", found.chunks);
        if found.chunks % args.output_frequency == 0 && (found.chunks as usize) < windows {
            write(args, &all(found)?)?;
            say!(
                "wrote {}: --in-file {0} --from-chunk {} goes on from here",
                args.output_file.display(),
                from + found.chunks as usize
            );
        }
        waiting = computing();
        Ok::<_, Error>(())
    })?;
    drop(waiting);
    report(model, &found)?;
    all(&found)
}

fn write(args: &ImatrixArgs, all: &Imatrix) -> Result<(), Error> {
    Ok(all.write(&args.output_file, args.output_format.into())?)
}

/// Says which matrices nothing is known of: they are quantized as if all columns were alike.
fn report(model: &Model, found: &Imatrix) -> Result<(), Error> {
    for imatrix::Unseen { tensor, experts } in imatrix::unseen(model, found)? {
        match experts {
            None => say!("note: {tensor}: nothing was multiplied with it"),
            Some((unseen, all)) => say!("note: {tensor}: no row chose {unseen} of its {all} experts"),
        }
    }
    Ok(())
}
