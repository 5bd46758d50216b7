//! `candor doctor`: what is wrong with a model file, and what only looks wrong.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use candor_inspect::doctor::{DoctorReport, Finding, Severity, doctor as examine};

use super::json;
use crate::{
    args::{DoctorArgs, Line},
    errors::Error,
    inspect::error,
    open::{Source, check},
    output::{Bytes, Count},
    paint::{Paint, Style},
    waiting::Waiting,
};

/// Runs the command. The exit code is 1 where something is wrong.
pub fn doctor(args: &DoctorArgs, line: &Line) -> Result<ExitCode, Error> {
    let source = Source::of(line, &args.model)?;
    let path = source.path().ok_or(error::Error::BuiltIn)?;
    check(path)?;
    let waiting = Waiting::new(args.waiting.progress, "reading");
    let report = examine(path).map_err(|error| Error::File { path: path.to_owned(), error })?;
    drop(waiting);
    if args.json {
        json::print(&report)?;
    } else {
        print(&report, &mut io::BufWriter::new(io::stdout().lock()))?;
    }
    Ok(if report.is_healthy() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
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
