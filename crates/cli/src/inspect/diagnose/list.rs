//! The catalogue of known faults, all of it or what of it can be distinguished in a file, for people and as JSON.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    process::ExitCode,
};

use candor::Gguf;
use candor_inspect::{
    catalogue,
    fault::{Fault, Harm},
    survey::{self, survey},
};
use serde::Serialize;

use crate::{
    errors::Error,
    inspect::{json, trace::numbered},
    paint::{Paint, Style},
};

#[derive(Serialize)]
struct Row {
    name: &'static str,
    entry: &'static str,
    numbers: &'static [f64],
    harm: Harm,
    cause: String,
    remedy: &'static str,
    source: &'static str,
}

impl Row {
    fn of(fault: &'static Fault) -> Row {
        let numbers: &[f64] = if numbered(fault) { fault.variants } else { &[] };
        let texts: Vec<String> = numbers.iter().map(f64::to_string).collect();
        let cause = fault.cause.replace("{}", &texts.join(" or "));
        let Fault { name, entry, harm, remedy, source, .. } = *fault;
        Row { name, entry, numbers, harm, cause, remedy, source }
    }
}

/// Prints it.
pub fn print(as_json: bool) -> Result<ExitCode, Error> {
    let rows: Vec<Row> = catalogue().map(Row::of).collect();
    if as_json {
        json::print(&rows)?;
        return Ok(ExitCode::SUCCESS);
    }
    let paint = Paint::of_stdout();
    let mut out = io::BufWriter::new(io::stdout().lock());
    for row in &rows {
        let harmless = if row.harm == Harm::Harmless { " (harmless)" } else { "" };
        writeln!(out, "{}{harmless}", paint.paint(Style::Bold, row.name))?;
        writeln!(out, "  {}", row.cause)?;
    }
    writeln!(out, "\n{} known faults", rows.len())?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Prints which faults can be distinguished in a file, and why the others do not apply.
pub fn print_of(gguf: &Gguf, as_json: bool) -> Result<ExitCode, Error> {
    let rows = survey(gguf).map_err(candor::Error::from)?;
    if as_json {
        json::print(&rows)?;
        return Ok(ExitCode::SUCCESS);
    }
    let paint = Paint::of_stdout();
    let mut out = io::BufWriter::new(io::stdout().lock());
    let mut beside: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for survey::Row { fault, values, twins, because } in &rows {
        if let Some(because) = because {
            beside.entry(because).or_default().push(fault);
            continue;
        }
        writeln!(out, "{}", paint.paint(Style::Bold, fault))?;
        writeln!(out, "  changes {}", values.join(", "))?;
        if !twins.is_empty() {
            writeln!(out, "  the same in numbers: {}", twins.join(", "))?;
        }
    }
    writeln!(out, "\n{}", paint.paint(Style::Bold, "do not apply here:"))?;
    for (because, faults) in &beside {
        writeln!(out, "  {because}: {}", faults.join(", "))?;
    }
    let apply = rows.iter().filter(|row| row.because.is_none());
    let alone = apply.clone().filter(|row| row.twins.is_empty()).count();
    writeln!(out, "\n{} of {} known faults apply, {alone} of them without a twin", apply.count(), rows.len())?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
