//! Reports as JSON on stdout.

use std::io::{self, Write};

use serde::Serialize;

use crate::errors::Error;

/// Prints a report.
pub fn print(report: &impl Serialize) -> Result<(), Error> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    serde_json::to_writer_pretty(&mut out, report).map_err(io::Error::from)?;
    writeln!(out)?;
    Ok(out.flush()?)
}
