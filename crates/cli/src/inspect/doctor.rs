//! `candor doctor`: what is wrong with a model file, and what only looks wrong.

use std::{
    io::{self, Write},
    process::ExitCode,
    time::Instant,
};

use candor::SessionOptions;
use candor_inspect::doctor::{DoctorReport, Finding, Likelihood, Severity, TextOptions, doctor as examine, likelihood};

use super::json;
use crate::{
    args::{DoctorArgs, Line},
    bar::Bar,
    errors::Error,
    inspect::error,
    open::{Source, check},
    output::{Bytes, Count},
    paint::{Paint, Style},
    text,
    waiting::Waiting,
};

/// Runs the command. The exit code is 1 where something is wrong.
pub fn doctor(args: &DoctorArgs, line: &Line) -> Result<ExitCode, Error> {
    let source = Source::of(line, &args.model)?;
    let path = source.path().ok_or(error::Error::BuiltIn)?;
    check(path)?;
    let text = args.text.as_deref().map(text::of_file).transpose()?;
    let waiting = Waiting::new(args.waiting.progress, "reading");
    let mut report = examine(path).map_err(|error| Error::File { path: path.to_owned(), error })?;
    drop(waiting);
    // A file that cannot be opened has no likelihoods.
    let text = text.filter(|_| report.contents.is_some());
    let unmeasured = match text.map(|text| measure(args, &source, &text)).transpose() {
        Ok(found) => {
            found.into_iter().for_each(|found| report.add(found));
            None
        }
        Err(error) => Some(error),
    };
    if args.json {
        json::print(&report)?;
    } else {
        print(&report, &mut io::BufWriter::new(io::stdout().lock()))?;
    }
    match unmeasured {
        Some(error) => Err(error),
        None if report.is_healthy() => Ok(ExitCode::SUCCESS),
        None => Ok(ExitCode::FAILURE),
    }
}

/// How likely the model finds the text, and with which repairs.
fn measure(args: &DoctorArgs, source: &Source, text: &str) -> Result<Likelihood, Error> {
    let options = TextOptions {
        load: args.place.load()?,
        session: SessionOptions::default(),
        window: args.ctx_size as usize,
        windows: args.chunks as usize,
    };
    let mut bar =
        Bar::new(args.waiting.progress, "trying {wide_bar} {pos} of {len} repairs, {eta} left", Instant::now());
    Ok(likelihood(&source.gguf()?, text, &options, |done, all| bar.set(done as u64, all as u64))?)
}

fn print(report: &DoctorReport, out: &mut impl Write) -> Result<(), Error> {
    let paint = Paint::of_stdout();
    for file in &report.files {
        let hash = file.sha256.as_deref().unwrap_or("not made");
        writeln!(out, "{}: {}, SHA-256 {hash}", file.name, Bytes(file.bytes))?;
    }
    if let Some(contents) = &report.contents {
        let formats = contents.formats.iter().map(|(name, count)| format!("{count} {name}")).collect::<Vec<_>>();
        writeln!(
            out,
            "GGUF version {}, {}, {} keys, {} tensors ({}), {} parameters",
            contents.gguf,
            contents.architecture.as_deref().unwrap_or("no architecture"),
            contents.keys,
            contents.tensors,
            formats.join(", "),
            Count(contents.elements)
        )?;
    }
    for finding in &report.findings {
        print_finding(finding, paint, out)?;
    }
    let count = |severity| report.of(severity).count();
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    let verdict = match (errors, warnings) {
        (0, 0) => paint.paint(Style::Green, "nothing is wrong with the file"),
        (0, _) => paint.paint(Style::Yellow, format!("nothing is certainly wrong, {warnings} to look at")),
        (_, _) => paint
            .paint(Style::Red, format!("the file is damaged or made wrongly: {errors} wrong, {warnings} to look at")),
    };
    writeln!(out, "\n{verdict}")?;
    Ok(out.flush()?)
}

/// Prints a finding: what, and below it why or what to do.
pub fn print_finding(finding: &Finding, paint: Paint, out: &mut impl Write) -> Result<(), Error> {
    let (word, style) = match finding.severity {
        Severity::Fine => ("fine", Style::Green),
        Severity::Warning => ("warning", Style::Yellow),
        Severity::Error => ("wrong", Style::Red),
    };
    let word = paint.paint(style, format!("{word:<8}"));
    writeln!(out, "\n{word} {}: {}", finding.subject.escape_debug(), finding.message)?;
    if !finding.hint.is_empty() {
        writeln!(out, "         {}", finding.hint)?;
    }
    Ok(())
}
