//! `candor verify`: whether this machine computes a model rightly, as tables and a verdict.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use candor_inspect::{
    doctor::{Severity, files_of},
    verify::{Depth, Operation, Outcome, Prompt, Verdict, VerifyOptions, VerifyReport, verify_opened},
};

use super::{
    doctor::print_finding,
    dump::Reader,
    json,
    places::grouped,
    table::{Align, Table, error},
};
use crate::{
    answer::kv_format,
    args::{Line, VerifyArgs},
    errors::Error,
    open::Source,
    output::say,
    paint::{Paint, Style},
    waiting::Waiting,
};

/// Runs the command. The exit code is 1 where something is wrong.
pub fn verify(args: &VerifyArgs, line: &Line) -> Result<ExitCode, Error> {
    let source = Source::of(line, &args.model)?.overridden(&args.overrides, line)?;
    let gguf = source.gguf()?;
    let reader = Reader::new((&source, &gguf), (&args.dump, args.waiting), line)?;
    let against = args.against.as_ref().map(|path| reader.read(path)).transpose()?.map(|dump| dump.imported.trace);
    let files = source.path().map(files_of).unwrap_or_default();
    let options = VerifyOptions {
        load: args.place.load()?,
        prompt: reader.given().map_or(Prompt::BuiltIn, |ids| Prompt::Ids(ids.to_vec())),
        decode: args.steps,
        depth: if args.quick { Depth::Quick } else { Depth::Full },
        keys: kv_format(args.cache.cache_type_k),
        values: kv_format(args.cache.cache_type_v),
        against,
    };
    let waiting = Waiting::new(args.waiting.progress, "verifying");
    let report = verify_opened(gguf.clone(), &files, &options)?;
    drop(waiting);
    source.note_unused(&gguf);
    if args.json {
        json::print(&report)?;
    } else {
        print(&report, &source, &mut io::BufWriter::new(io::stdout().lock()))?;
    }
    if let (Verdict::Fail { .. }, Some(path)) = (&report.verdict, &args.against) {
        say!(
            "hint: candor diagnose --trace {} says which of its operations went wrong first, if one did",
            path.display()
        );
    }
    Ok(match report.verdict {
        Verdict::Pass => ExitCode::SUCCESS,
        Verdict::Fail { .. } => ExitCode::FAILURE,
    })
}

fn print(report: &VerifyReport, source: &Source, out: &mut impl Write) -> Result<(), Error> {
    let paint = Paint::of_stdout();
    writeln!(out, "{} on {}: {}", report.engine, report.device, source.name())?;
    for file in &report.files {
        if let Some(hash) = &file.sha256 {
            writeln!(out, "{}: SHA-256 {hash}", file.name)?;
        }
    }
    writeln!(out, "compared with {}", report.oracle)?;
    let (tokens, prompt) = (report.tokens.len(), report.prompt_tokens);
    match report.text.len() {
        0 => writeln!(out, "{tokens} tokens, {prompt} of them together as the prompt")?,
        text => writeln!(out, "{tokens} tokens that answer a text of {text}, {prompt} of them together")?,
    }
    for finding in report.findings.iter().filter(|finding| finding.severity != Severity::Fine) {
        print_finding(finding, paint, out)?;
    }
    if let Some(operations) = &report.operations {
        writeln!(out)?;
        operation_table(&operations.classes).print(paint, out)?;
    }
    if report.against.is_some() {
        against(report, paint, out)?;
    }
    writeln!(out)?;
    check_table(report).print(paint, out)?;
    let seconds = report.seconds;
    let verdict = match &report.verdict {
        Verdict::Pass => {
            let depth = match report.depth {
                Depth::Full => "everything",
                Depth::Quick => "every sample",
            };
            paint.paint(Style::Green, format!("verified: {depth} is within its bound ({seconds:.1} s)"))
        }
        Verdict::Fail { first } => paint.paint(Style::Red, format!("FAILED: {first} ({seconds:.1} s)")),
    };
    writeln!(out, "\n{verdict}")?;
    Ok(out.flush()?)
}

fn operation_table(classes: &[Operation]) -> Table {
    use Align::{Left, Right};
    let mut table = Table::new(&[
        ("operation", Left),
        ("calls", Right),
        ("elements", Right),
        ("worst error", Right),
        ("bound", Right),
        ("failed", Right),
        ("where", Left),
    ]);
    for operation in classes {
        let worst = operation.worst_of_all();
        let cells = vec![
            operation.class.to_string(),
            operation.calls.to_string(),
            operation.elements.to_string(),
            error(worst.error.unwrap_or(f64::INFINITY)),
            error(worst.bound),
            operation.failed_calls.to_string(),
            worst.place.to_string(),
        ];
        table.row(cells, (!operation.passes()).then_some(Style::Red));
    }
    table
}

/// The comparison with a trace.
fn against(report: &VerifyReport, paint: Paint, out: &mut impl Write) -> Result<(), Error> {
    use Align::{Left, Right};
    let Some(against) = &report.against else { return Ok(()) };
    let mut table = Table::new(&[
        ("value", Left),
        ("layers", Right),
        ("elements", Right),
        ("worst error", Right),
        ("bound", Right),
        ("where", Left),
    ]);
    for name in &against.names {
        let cells = vec![
            name.name.clone(),
            name.values.to_string(),
            name.elements.to_string(),
            error(name.error.unwrap_or(f64::INFINITY)),
            error(name.bound),
            name.worst.to_string(),
        ];
        table.row(cells, (!name.passes()).then_some(Style::Red));
    }
    writeln!(out)?;
    table.print(paint, out)?;
    let mut reasons: Vec<&str> = Vec::new();
    for (_, reason) in &against.left_out {
        if !reasons.contains(&reason.as_str()) {
            reasons.push(reason);
        }
    }
    for reason in reasons {
        let keys = against.left_out.iter().filter(|(_, other)| other == reason).map(|(key, _)| key);
        writeln!(out, "left out: {}: {reason}", grouped(keys))?;
    }
    Ok(())
}

fn check_table(report: &VerifyReport) -> Table {
    let mut table = Table::new(&[("check", Align::Left), ("of", Align::Left), ("outcome", Align::Left)]);
    for check in &report.checks {
        let (outcome, style) = match &check.outcome {
            Outcome::Passed => ("passed".to_owned(), None),
            Outcome::Failed(why) => (format!("failed: {why}"), Some(Style::Red)),
            Outcome::Skipped(why) => (format!("skipped: {why}"), Some(Style::Dim)),
        };
        table.row(vec![check.name.clone(), check.detail.clone(), outcome], style);
    }
    table
}
