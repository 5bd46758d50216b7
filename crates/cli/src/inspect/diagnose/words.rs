//! The side of a diagnosis that is not arithmetic: template, tokens, choice, stopping, printed text.

use std::{
    io::{self, Write},
    path::Path,
    process::ExitCode,
};

use candor::Gguf;
use candor_inspect::{
    Trace,
    text::{Said, TextCheck, TextOutcome, TextReport, Verdict, check_text},
};

use crate::{
    errors::Error,
    inspect::error,
    paint::{Paint, Style},
    text,
};

/// Reads what a user knows of a run.
pub fn read(path: &Path) -> Result<Said, Error> {
    let source = text::of_file(path)?;
    Ok(serde_json::from_str(&source).map_err(|source| error::Error::Said { path: path.to_owned(), source })?)
}

/// Checks what was said.
pub fn check(gguf: &Gguf, said: &Said) -> Result<TextReport, Error> {
    Ok(check_text(gguf, said).map_err(error::Error::Text)?)
}

/// Checks what a trace says of its prompt, with what the user knows beside; `None` where nothing is known. Which tokens
/// were chosen, and how, is checked only where the user says something of the run: a trace does not say its settings.
pub fn of_trace(
    gguf: &Gguf,
    trace: &Trace,
    prompt: Option<String>,
    said: Option<&Said>,
) -> Result<Option<TextReport>, Error> {
    let traced = Said::of(trace);
    let known = match said {
        Some(said) => Said {
            prompt: said.prompt.clone().or(prompt).or(traced.prompt),
            prompt_ids: said.prompt_ids.clone().or(traced.prompt_ids),
            generated_ids: said.generated_ids.clone().or(traced.generated_ids),
            logits: traced.logits,
            ..said.clone()
        },
        None => Said { prompt: prompt.or(traced.prompt), prompt_ids: traced.prompt_ids, ..Said::default() },
    };
    if said.is_none() && known.prompt.is_none() {
        return Ok(None);
    }
    check(gguf, &known).map(Some)
}

/// The exit code that a report stands for.
pub fn exit(report: &TextReport) -> ExitCode {
    match report.outcome {
        TextOutcome::Healthy | TextOutcome::Undecided => ExitCode::SUCCESS,
        TextOutcome::Faulty | TextOutcome::Unknown => ExitCode::FAILURE,
    }
}

/// Prints what is wrong, and with `all` every check.
pub fn print(report: &TextReport, all: bool) -> Result<(), Error> {
    let paint = Paint::of_stdout();
    let mut out = io::BufWriter::new(io::stdout().lock());
    for check in &report.checks {
        match check.verdict {
            Verdict::Wrong => wrong(check, paint, &mut out)?,
            Verdict::Right if all => writeln!(out, "{}: right: {}", check.name, check.sentence)?,
            Verdict::NotCheckable if all => writeln!(out, "{}: open: {}", check.name, check.sentence)?,
            Verdict::Right | Verdict::NotCheckable => {}
        }
    }
    if let (true, Some(decided_by)) = (all, &report.decided_by) {
        writeln!(out, "would decide more: {decided_by}")?;
    }
    Ok(out.flush()?)
}

fn wrong(check: &TextCheck, paint: Paint, out: &mut impl Write) -> Result<(), Error> {
    writeln!(out, "\n{}: {}", paint.paint(Style::Red, check.name), check.sentence)?;
    for explanation in &check.explanations {
        writeln!(out, "{}", paint.paint(Style::Bold, explanation.name()))?;
        writeln!(out, "  {:<9} {}", "cause", explanation.cause)?;
        for fault in &explanation.faults {
            writeln!(out, "  {:<9} {}", "remedy", fault.remedy)?;
            writeln!(out, "  {:<9} {}", "source", fault.source)?;
        }
    }
    Ok(())
}
