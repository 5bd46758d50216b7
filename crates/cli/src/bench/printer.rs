//! What stdout gets: each test as soon as it is measured, in the format that was asked for. A table begins with its first
//! test, so that nothing is printed where nothing could be measured.

use std::io::{self, Write};

use super::{data, markdown::Table, plan::Plan, result::Measured};
use crate::args::bench::BenchFormat;

/// A page that is being written.
pub struct Printer<W> {
    out: W,
    format: BenchFormat,
    table: Option<Table>,
    rows: usize,
}

impl<W: Write> Printer<W> {
    /// Begins a page for the tests of a plan.
    pub fn begin(mut out: W, format: BenchFormat, plan: &Plan) -> io::Result<Printer<W>> {
        let table = match format {
            BenchFormat::Md => Some(Table::of(plan)),
            BenchFormat::Json => {
                writeln!(out, "[")?;
                None
            }
            BenchFormat::Jsonl | BenchFormat::Csv => None,
        };
        out.flush()?;
        Ok(Printer { out, format, table, rows: 0 })
    }

    /// Adds a test.
    pub fn add(&mut self, measured: &Measured<'_>) -> io::Result<()> {
        if let Some(table) = &self.table {
            if self.rows == 0 {
                table.head(&mut self.out)?;
            }
            table.row(measured, &mut self.out)?;
            self.rows += 1;
            return self.out.flush();
        }
        let fields = data::fields(measured);
        match self.format {
            BenchFormat::Csv => {
                if self.rows == 0 {
                    data::csv_head(&fields, &mut self.out)?;
                }
                data::csv_row(&fields, &mut self.out)?;
            }
            BenchFormat::Jsonl => writeln!(self.out, "{}", serde_json::to_string(&fields)?)?,
            BenchFormat::Json | BenchFormat::Md => {
                let comma = if self.rows > 0 { ",\n" } else { "" };
                write!(self.out, "{comma}{}", serde_json::to_string_pretty(&fields)?)?;
            }
        }
        self.rows += 1;
        self.out.flush()
    }

    /// Ends the page; `notes` go below a table.
    pub fn end(&mut self, notes: &[String]) -> io::Result<()> {
        match self.format {
            BenchFormat::Md if self.rows > 0 => {
                writeln!(self.out)?;
                for note in notes {
                    writeln!(self.out, "{note}")?;
                }
            }
            BenchFormat::Json => writeln!(self.out, "{}]", if self.rows > 0 { "\n" } else { "" })?,
            BenchFormat::Md | BenchFormat::Jsonl | BenchFormat::Csv => {}
        }
        self.out.flush()
    }
}
