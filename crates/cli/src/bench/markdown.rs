//! The Markdown table: llama-bench's columns, and ours behind them.

use std::io::{self, Write};

use candor::{Activations, Batching, Device};

use super::{
    data::{activations, batching},
    plan::{Plan, Setup},
    result::Measured,
};
use crate::{
    args::{CacheFormat, device::DeviceName},
    report::name,
};

/// Settings that get a column only where a test has others.
const USUAL: Setup = Setup { batch: 2048, ubatch: 512, keys: CacheFormat::F16, values: CacheFormat::F16 };

/// A column: its heading, its width, and what stands in it.
struct Column {
    heading: &'static str,
    width: usize,
    left: bool,
    cell: fn(&Measured<'_>) -> String,
}

/// A column for a setting.
struct Setting {
    heading: &'static str,
    width: usize,
    value: fn(&Setup) -> String,
    cell: fn(&Measured<'_>) -> String,
}

const SETTINGS: [Setting; 4] = [
    Setting { heading: "n_batch", width: 7, value: |s| s.batch.to_string(), cell: |m| m.setup.batch.to_string() },
    Setting { heading: "n_ubatch", width: 8, value: |s| s.ubatch.to_string(), cell: |m| m.setup.ubatch.to_string() },
    Setting { heading: "type_k", width: 6, value: |s| name(s.keys).into(), cell: |m| name(m.setup.keys).into() },
    Setting { heading: "type_v", width: 6, value: |s| name(s.values).into(), cell: |m| name(m.setup.values).into() },
];

/// A table that grows downwards.
pub struct Table {
    columns: Vec<Column>,
}

impl Table {
    /// The columns for the tests of a plan.
    pub fn of(plan: &Plan) -> Table {
        let left = |heading, width, cell| Column { heading, width, left: true, cell };
        let right = |heading, width, cell| Column { heading, width, left: false, cell };
        let mut columns = vec![
            left("model", 30, |m| m.subject.kind.clone()),
            right("size", 10, |m| size(m.subject.size)),
            right("params", 10, |m| parameters(m.subject.parameters)),
            left("backend", 14, |m| m.place.backend()),
            right("threads", 7, |m| m.place.ceilings.threads.to_string()),
        ];
        if plan.sites.iter().any(|site| site.device != DeviceName::One(Device::Cpu)) {
            columns.push(right("ngl", 4, |m| m.place.site.layers.to_string()));
            columns.push(left("dev", 10, |m| m.place.site.device.to_string()));
        }
        if plan.sites.iter().any(|site| site.batching != Batching::default()) {
            columns.push(right("batching", 9, |m| batching(m.place.site.batching).to_owned()));
        }
        if plan.sites.iter().any(|site| site.activations != Activations::default()) {
            columns.push(right("activations", 11, |m| activations(m.place.site.activations).to_owned()));
        }
        for setting in SETTINGS {
            if plan.tests.iter().any(|(setup, _)| (setting.value)(setup) != (setting.value)(&USUAL)) {
                columns.push(right(setting.heading, setting.width, setting.cell));
            }
        }
        columns.extend([
            right("test", 15, |m| m.test.to_string()),
            right("t/s", 20, |m| format!("{:.2} ± {:.2}", m.speed().value, m.speed().deviation)),
            right("GB/s", 7, |m| scaled(m.bytes_per_second(), 1e9, 2)),
            right("% read", 7, |m| scaled(m.share_of_read(), 0.01, 0)),
            right("TOPS", 7, |m| scaled(m.operations_per_second(), 1e12, 3)),
            right("% peak", 7, |m| scaled(m.share_of_peak(), 0.01, 0)),
        ]);
        Table { columns }
    }

    /// Writes the heading.
    pub fn head(&self, out: &mut impl Write) -> io::Result<()> {
        self.line(|column| column.heading.to_owned(), out)?;
        self.line(
            |column| match column.left {
                true => "-".repeat(column.width),
                false => format!("{}:", "-".repeat(column.width - 1)),
            },
            out,
        )
    }

    /// Writes a test's row.
    pub fn row(&self, measured: &Measured<'_>, out: &mut impl Write) -> io::Result<()> {
        self.line(|column| (column.cell)(measured), out)
    }

    fn line(&self, cell: impl Fn(&Column) -> String, out: &mut impl Write) -> io::Result<()> {
        write!(out, "|")?;
        for column in &self.columns {
            let (text, width) = (cell(column), column.width);
            match column.left {
                true => write!(out, " {text:<width$} |")?,
                false => write!(out, " {text:>width$} |")?,
            }
        }
        writeln!(out)
    }
}

/// Bytes as llama-bench writes them, in powers of two.
fn size(bytes: u64) -> String {
    let mebibytes = bytes as f64 / f64::from(1 << 20);
    match mebibytes < 1024.0 {
        true => format!("{mebibytes:.2} MiB"),
        false => format!("{:.2} GiB", mebibytes / 1024.0),
    }
}

/// A number of parameters as llama-bench writes it.
fn parameters(count: u64) -> String {
    match count < 1_000_000_000 {
        true => format!("{:.2} M", count as f64 / 1e6),
        false => format!("{:.2} B", count as f64 / 1e9),
    }
}

/// A figure in a unit, or nothing.
fn scaled(figure: Option<f64>, unit: f64, digits: usize) -> String {
    figure.map_or_else(String::new, |figure| format!("{:.digits$}", figure / unit))
}
