//! The catalogue of known faults, for people and as JSON.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use candor_inspect::{
    catalogue,
    fault::{Fault, Harm},
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
