//! `candor diagnose`: which operation of another engine went wrong first, and why.

mod beside;
mod embedded;
mod list;
mod people;

use std::process::ExitCode;

use candor_inspect::{Graph, Outcome, diagnose as find};
use clap::error::ErrorKind;

use super::{
    dump::{Dump, Reader, TokensFrom},
    error, json,
};
use crate::{
    args::{DiagnoseArgs, Line},
    errors::Error,
    open::Source,
    output::say,
};

/// Runs the command. The exit code is 1 where something is wrong.
pub fn diagnose(args: &DiagnoseArgs, line: &Line) -> Result<ExitCode, Error> {
    if args.list {
        return list::print(args.json);
    }
    let source = Source::of(line, &args.model)?;
    let Some(path) = &args.trace else {
        let message = "--trace DUMP says what to diagnose, --list prints the known faults";
        return Err(line.usage_error(ErrorKind::MissingRequiredArgument, message));
    };
    let gguf = source.gguf()?;
    let reader = Reader::new(&source, &gguf, &args.dump, line)?;
    let Dump { trace, tokens_from } = reader.read(path)?;
    let reference = args.reference.as_ref().map(|path| reader.read(path)).transpose()?;
    let diagnosis = find(&gguf, &trace)?;
    let graph = Graph::new(&gguf).map_err(candor::Error::from)?;
    let embedded = embedded::other_tokens(&diagnosis, &trace, &graph);
    if let (Some(tokens), TokensFrom::User) = (&embedded, tokens_from) {
        return Err(error::Error::Embedded { path: path.clone(), tokens: tokens.to_string() }.into());
    }
    let beside = reference.map(|reference| beside::residuals(&trace, &reference.trace));
    if args.json {
        json::print(&beside::Report { diagnosis: &diagnosis, reference: beside.as_ref() })?;
    } else {
        let view = people::View { diagnosis: &diagnosis, graph: &graph, beside: beside.as_ref() };
        view.print(args.all)?;
    }
    if let Some(tokens) = &embedded {
        say!("note: the rows of inp_embd are the embeddings of other tokens than the trace names: {tokens}");
    }
    Ok(match diagnosis.outcome {
        Outcome::Healthy | Outcome::Harmless => ExitCode::SUCCESS,
        Outcome::Faulty | Outcome::Unknown => ExitCode::FAILURE,
    })
}
