//! `candor compare`: what differs between two files of a model, by how much, and which tensor costs most.

use std::{
    io::{self, Write},
    process::ExitCode,
    time::Instant,
};

use candor::{Encode, Gguf, Model, SessionOptions, Windows};
use candor_inspect::{
    comparison::{self, Compared, Kept, Pair},
    divergence::{self, Figures},
};
use serde::Serialize;

use super::{
    json,
    table::{Align, Table},
};
use crate::{answer, args::CompareArgs, bar::Bar, errors::Error, open::Source, paint::Paint, text, waiting::Waiting};

/// All that is found.
#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    compared: Compared,
    divergence: Option<Figures>,
}

/// Runs the command.
pub fn compare(args: &CompareArgs) -> Result<ExitCode, Error> {
    let [a, b] = [&args.a, &args.b].map(Source::file);
    let text = args.file.as_deref().map(text::of_file).transpose()?;
    let (file_a, file_b) = (a.gguf()?, b.gguf()?);
    let mut bar = bar(args, "comparing {wide_bar} {pos} of {len} tensors");
    let compared = comparison::files(&file_a, &file_b, |done, all| bar.set(done as u64, all as u64))?;
    drop(bar);
    let mut report = Report { compared, divergence: None };
    if let Some(text) = text {
        let session = answer::session_options(args.ctx_size, &args.cache, &args.performance);
        measure(args, &mut report, [a, b], (&file_a, &file_b), &text, session)?;
    }
    if args.json {
        json::print(&report)?;
    } else {
        print(&report)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn bar(args: &CompareArgs, template: &'static str) -> Bar {
    Bar::new(args.output.progress, template, Instant::now())
}

/// Runs both models over the text, and the first with each tensor of the second.
fn measure(
    args: &CompareArgs,
    report: &mut Report,
    [a, b]: [Source; 2],
    files: (&Gguf, &Gguf),
    text: &str,
    session: SessionOptions,
) -> Result<(), Error> {
    let open = |source: Source| source.open(&args.performance, Vec::new(), session, &args.output);
    let (a, b) = (open(a)?, open(b)?);
    a.model.refuse_answers("candor compare -f")?;
    let tokens = tokens(&a.model, text);
    let windows = Windows::new(&a.model, &tokens, args.ctx_size as usize)?.first(args.chunks as usize);
    let waiting = Waiting::new(args.output.progress, "computing");
    let found =
        divergence::of_models(&mut a.model.session(&session)?, &mut b.model.session(&session)?, &windows, |_, _| ());
    drop(waiting);
    report.divergence = Some(found?.figures());
    if args.costs {
        let load = args.performance.load()?.session(session);
        let mut bar = bar(args, "measuring {wide_bar} {pos} of {len} tensors, {eta} left");
        comparison::costs(&mut report.compared, files, (&load, session), &windows, |done, all| {
            bar.set(done as u64, all as u64)
        })?;
    }
    Ok(())
}

fn tokens(model: &Model, text: &str) -> Vec<u32> {
    model.tokenizer().encode(text.strip_suffix('\n').unwrap_or(text), Encode { bos: true, specials: false })
}

fn print(report: &Report) -> Result<(), Error> {
    let Report { compared: Compared { metadata, tensors }, divergence } = report;
    let mut out = io::BufWriter::new(io::stdout().lock());
    let none = || "-".to_owned();
    writeln!(out, "metadata: {} keys differ", metadata.len())?;
    for key in metadata {
        let of = |value: &Option<String>| value.clone().unwrap_or_else(none);
        writeln!(out, "  {}: {} | {}", key.key, of(&key.a), of(&key.b))?;
    }
    let mut different: Vec<&Pair> = tensors.iter().filter(|pair| pair.differs()).collect();
    writeln!(out, "tensors: {} of {} differ", different.len(), tensors.len())?;
    if !different.is_empty() {
        let by = |pair: &Pair| pair.cost.or(pair.error).unwrap_or(f64::INFINITY);
        different.sort_by(|a, b| by(b).total_cmp(&by(a)));
        let mut table =
            Table::new(&[("tensor", Align::Left), ("A", Align::Left), ("B", Align::Left), ("error", Align::Right)]);
        let costs = different.iter().any(|pair| pair.cost.is_some());
        if costs {
            table.column("cost", Align::Right);
        }
        for pair in different {
            let kept = |kept: &Option<Kept>, other: &Option<Kept>| match (kept, other) {
                (None, _) => none(),
                (Some(kept), Some(other)) if kept.shape == other.shape => kept.format.to_owned(),
                (Some(kept), _) => format!("{} {:?}", kept.format, kept.shape),
            };
            let error = pair.error.map_or_else(none, |error| format!("{:.3} %", 100.0 * error));
            let mut cells = vec![pair.name.clone(), kept(&pair.a, &pair.b), kept(&pair.b, &pair.a), error];
            if costs {
                cells.push(pair.cost.map_or_else(none, |cost| format!("{cost:.6}")));
            }
            table.row(cells, None);
        }
        table.print(Paint::of_stdout(), &mut out)?;
    }
    if let Some(figures) = divergence {
        let mean = figures.divergence.mean;
        writeln!(
            out,
            "divergence of B from A: {:.6} +/- {:.6} nats over {} tokens",
            mean.value, mean.error, figures.tokens
        )?;
        writeln!(out, "same likeliest token: {:.2} %", 100.0 * figures.same_top.value)?;
        writeln!(out, "perplexity: {:.4} | {:.4}", figures.base_perplexity.value, figures.perplexity.value)?;
    }
    Ok(out.flush()?)
}
