//! `candor show --tensor`: the values of tensors, decoded: statistics of all and the first ones.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use candor_gguf::{Gguf, TensorInfo};
use candor_inspect::{
    Key,
    record::{Sink, Statistics, Summary, matches},
};
use serde_json::{Value as Json, json};

use crate::{
    args::ShowArgs,
    errors::Error,
    inspect::{
        error, json as report,
        table::{Align, Table},
    },
    near::nearest,
    paint::{Paint, Style},
};

/// Prints the values of the tensors that the arguments name.
pub fn print(gguf: &Gguf, args: &ShowArgs) -> Result<ExitCode, Error> {
    let names = || gguf.tensors().iter().map(|tensor| tensor.name.as_str());
    if let Some(pattern) = args.tensor.iter().find(|pattern| !names().any(|name| matches(pattern, name))) {
        let near = nearest(pattern, names()).map(str::to_owned);
        return Err(error::Error::NoTensor { pattern: pattern.clone(), near }.into());
    }
    let named = |tensor: &&TensorInfo| args.tensor.iter().any(|pattern| matches(pattern, &tensor.name));
    let tensors: Vec<&TensorInfo> = gguf.tensors().iter().filter(named).collect();
    let mut statistics = Statistics::default();
    let firsts = tensors.iter().map(|tensor| read(gguf, tensor, args.head, &mut statistics));
    let firsts = firsts.collect::<Result<Vec<_>, Error>>()?;
    let summaries = statistics.summaries().zip(firsts).map(|(summary, first)| Summary { first, ..summary });
    let all: Vec<(&TensorInfo, Summary)> = tensors.into_iter().zip(summaries).collect();
    if args.json {
        let tensors: Vec<Json> = all.iter().map(|(tensor, summary)| object(tensor, summary)).collect();
        report::print(&json!({ "tensors": tensors }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = io::BufWriter::new(io::stdout().lock());
    table(&all).print(Paint::of_stdout(), &mut out)?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Decodes a tensor row by row into statistics, and gives its `count` first values.
fn read(gguf: &Gguf, tensor: &TensorInfo, count: usize, statistics: &mut Statistics) -> Result<Vec<f32>, Error> {
    let (data, cols) = (gguf.data(tensor), tensor.shape[0] as usize);
    let rows = tensor.elements().checked_div(tensor.shape[0]).unwrap_or(0);
    let bytes = tensor.bytes.checked_div(rows).unwrap_or(0) as usize;
    let (mut row, mut first) = (vec![0.0; cols], Vec::new());
    let key = Key::new(tensor.name.as_str(), None);
    // A tensor without an element has no row, and statistics all the same.
    statistics.rows(&key, cols, 0, &[])?;
    for (index, bytes) in data.chunks_exact(bytes.max(1)).enumerate() {
        tensor.format.decode(bytes, &mut row);
        first.extend(row.iter().take(count - first.len()));
        statistics.rows(&key, cols, index, &row)?;
    }
    Ok(first)
}

fn table(all: &[(&TensorInfo, Summary)]) -> Table {
    let (left, right) = (Align::Left, Align::Right);
    let numbers = ["shape", "rms", "mean", "min", "max", "zeros", "nan", "inf"].map(|name| (name, right));
    let columns = [&[("tensor", left), ("type", left)], numbers.as_slice(), &[("first", left)]].concat();
    let mut table = Table::new(&columns);
    for (tensor, summary) in all {
        let shape = tensor.shape.iter().map(u64::to_string).collect::<Vec<_>>().join(" x ");
        let mut cells = vec![tensor.name.escape_debug().to_string(), tensor.format.name().to_owned(), shape];
        cells.extend([summary.rms, summary.mean, f64::from(summary.min), f64::from(summary.max)].map(number));
        cells.push(format!("{:.2} %", 100.0 * zeros(tensor, summary)));
        cells.extend([summary.nan, summary.infinite].map(|count| count.to_string()));
        cells.push(summary.first.iter().map(|&x| number(x.into())).collect::<Vec<_>>().join(" "));
        table.row(cells, (summary.nan + summary.infinite > 0).then_some(Style::Red));
    }
    table
}

fn object(tensor: &TensorInfo, summary: &Summary) -> Json {
    let Summary { rms, mean, min, max, nan, infinite, first, .. } = summary;
    json!({
        "name": tensor.name, "format": tensor.format.name(), "shape": tensor.shape, "bytes": tensor.bytes,
        "elements": tensor.elements(), "rms": rms, "mean": mean, "min": min, "max": max,
        "zeros": summary.zeros, "zero_share": zeros(tensor, summary), "nan": nan, "infinite": infinite, "first": first,
    })
}

/// The share of elements that are exactly 0.
fn zeros(tensor: &TensorInfo, summary: &Summary) -> f64 {
    summary.zeros as f64 / tensor.elements().max(1) as f64
}

/// Six digits behind the point, or an exponent where these would say nothing.
fn number(x: f64) -> String {
    match x.abs() {
        _ if !x.is_finite() => "-".to_owned(),
        0.0 | 1e-3..1e5 => format!("{x:.6}"),
        _ => format!("{x:.3e}"),
    }
}
