//! `candor diagnose`: which operation of another engine went wrong first, and why.

mod beside;
mod embedded;
mod list;
mod people;
mod words;

use std::process::ExitCode;

use candor_inspect::{Graph, Outcome, Settled, judge, page, settle};
use clap::error::ErrorKind;

use super::{
    dump::{Dump, Reader, TokensFrom, say_readings},
    error, json,
};
use crate::{
    args::{DiagnoseArgs, Line},
    errors::Error,
    open::Source,
    output::say,
    waiting::Waiting,
};

/// The exit code where a dump is too little to be judged.
const UNDECIDED: u8 = 2;

/// Runs the command. The exit code is 1 where something is wrong, and 2 where that cannot be decided.
pub fn diagnose(args: &DiagnoseArgs, line: &Line) -> Result<ExitCode, Error> {
    let source = Source::of(line, &args.model)?.overridden(&args.overrides, line)?;
    if args.list {
        return match source.path() {
            None => list::print(args.json),
            Some(_) => list::print_of(&source.gguf()?, args.json),
        };
    }
    let said = args.said.as_deref().map(words::read).transpose()?;
    let Some(path) = &args.trace else {
        let Some(said) = said else {
            let message = "--trace DUMP or --said FILE says what to diagnose, --list prints the known faults";
            return Err(line.usage_error(ErrorKind::MissingRequiredArgument, message));
        };
        let report = words::check(&source.gguf()?, &said)?;
        if args.json {
            json::print(&report)?;
        } else {
            words::print(&report, true)?;
        }
        return Ok(words::exit(&report));
    };
    let gguf = source.gguf()?;
    let reader = Reader::new((&source, &gguf), (&args.dump, args.waiting), line)?;
    let Dump { imported, tokens_from } = reader.read(path)?;
    let reference = args.reference.as_ref().map(|path| reader.read(path)).transpose()?;
    if !args.json {
        say_readings(&imported.read, args.all);
    }
    let waiting = Waiting::new(args.waiting.progress, "diagnosing");
    let Settled { diagnosis, trace, rows } =
        settle(&gguf, &imported, if args.no_faults { judge } else { candor_inspect::diagnose })?;
    drop(waiting);
    if let Some(row) = rows {
        say!("note: {}: rows that it does not say the token of are those of token {row}", path.display());
    }
    let graph = Graph::new(&gguf).map_err(candor::Error::from)?;
    let embedded = embedded::other_tokens(&diagnosis, &trace, &graph);
    if let (Some(tokens), TokensFrom::User) = (&embedded, tokens_from) {
        return Err(error::Error::Embedded { path: path.clone(), tokens: tokens.to_string() }.into());
    }
    let prompt = args.dump.prompt.clone().filter(|_| tokens_from == TokensFrom::Dump);
    let text = words::of_trace(&gguf, &trace, prompt, said.as_ref())?;
    let beside = reference.map(|reference| beside::residuals(&trace, &reference.imported.trace));
    if args.json {
        let (reference, text, read) = (beside.as_ref(), text.as_ref(), &imported.read);
        json::print(&beside::Report { diagnosis: &diagnosis, reference, text, read })?;
    } else {
        let view =
            people::View { diagnosis: &diagnosis, graph: &graph, beside: beside.as_ref(), faults: !args.no_faults };
        view.print(args.all)?;
        if let Some(text) = &text {
            words::print(text, args.all || said.is_some())?;
        }
    }
    if let Some(html) = &args.html {
        let title = trace.origin.engine.as_deref().unwrap_or("a trace");
        let page = page(&gguf, &trace, Some(&diagnosis), title)?;
        std::fs::write(html, page).map_err(|error| Error::File { path: html.clone(), error })?;
        say!("wrote {}", html.display());
    }
    if let Some(tokens) = &embedded {
        say!("note: the rows of inp_embd are the embeddings of other tokens than the trace names: {tokens}");
    }
    Ok(match diagnosis.outcome {
        Outcome::Healthy | Outcome::Harmless => text.as_ref().map_or(ExitCode::SUCCESS, words::exit),
        Outcome::Faulty | Outcome::Unknown => ExitCode::FAILURE,
        Outcome::Undecided => ExitCode::from(UNDECIDED),
    })
}
