//! `candor quantize --target-size`: formats by what they cost on a text.

use std::{
    io::{self, Write},
    path::Path,
    time::Instant,
};

use candor::{Encode, Windows};
use candor_convert::{Mix, Options};
use candor_inspect::target::{self, Choice, Limit, Settings, Stage};

use crate::{
    answer,
    args::{QuantizeArgs, target::TargetArgs},
    bar::Bar,
    errors::Error,
    inspect::table::{Align, Table},
    open::Source,
    output::Bytes,
    paint::Paint,
    text,
    waiting::Waiting,
};

/// Chooses, and prints the choice. `options` say what is settled already.
pub fn choose(args: &QuantizeArgs, options: &Options, limit: Limit, threads: usize) -> Result<Choice, Error> {
    let TargetArgs { file, ctx_size, chunks, runs, cache, performance, .. } = &args.target;
    let text = file.as_deref().map(text::of_file).transpose()?.ok_or(Error::NoText)?;
    let session = answer::session_options(*ctx_size, cache, performance);
    let load = performance.load()?.session(session);
    let overrides = args.metadata.overrides();
    let model = Source::file(&args.input).with(overrides).open_with(&load, args.waiting.progress)?.model;
    model.refuse_answers("candor quantize --target-size")?;
    let tokens = model.tokenizer().encode(&text::without_last_break(text), Encode { bos: true, specials: false });
    let windows = Windows::new(&model, &tokens, *ctx_size as usize)?.first(*chunks as usize);
    let settings = Settings { limit, runs: runs.map(|runs| runs as usize), threads };
    let mut waiting = Some(Waiting::new(args.waiting.progress, "computing"));
    let mut shown: Option<(Stage, Bar)> = None;
    let progress = |stage, done: usize, all: usize| {
        drop(waiting.take());
        let template = match stage {
            Stage::Encoding => "encoding {wide_bar} {pos} of {len} tensors, {eta} left",
            Stage::Measuring => "measuring {wide_bar} {pos} of {len} models, {eta} left",
        };
        let (_, bar) = match shown.take() {
            Some(same) if same.0 == stage => shown.insert(same),
            _ => shown.insert((stage, Bar::new(args.waiting.progress, template, Instant::now()))),
        };
        bar.set(done as u64, all as u64);
    };
    let choice = target::choose(model, options, settings, (&load, session), &windows, progress)?;
    drop(shown);
    print(&choice)?;
    if let Some(path) = &args.target.tensor_type_output {
        write(&choice, path)?;
    }
    Ok(choice)
}

/// The mix of a choice: what was named before keeps its format.
pub fn mix(mut mix: Mix, choice: &Choice) -> Result<Mix, Error> {
    (mix.kind, mix.main) = (choice.kind, choice.kind.main());
    for row in &choice.rows {
        mix.name(&row.pattern(), row.format)?;
    }
    Ok(mix)
}

fn print(choice: &Choice) -> Result<(), Error> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    let mut table = Table::new(&[
        ("tensor", Align::Left),
        ("format", Align::Left),
        ("bytes", Align::Right),
        ("cost alone", Align::Right),
    ]);
    for row in &choice.rows {
        let cost = row.cost.map_or_else(|| "given".to_owned(), |cost| format!("{cost:.6}"));
        table.row(vec![row.name.clone(), row.format.name().to_owned(), row.bytes.to_string(), cost], None);
    }
    table.print(Paint::of_stdout(), &mut out)?;
    let Choice { measured, predicted, tokens, runs, .. } = choice;
    writeln!(
        out,
        "divergence: {:.6} +/- {:.6} nats over {tokens} tokens (costs add up to {predicted:.6}; {runs} models measured)",
        measured.value, measured.error
    )?;
    if let Some(standard) = &choice.standard {
        let (name, bytes) = (standard.kind.name(), Bytes(standard.bytes));
        writeln!(out, "beside it: {:.6} nats of {name}, a file of {bytes}", standard.divergence)?;
    }
    writeln!(out, "type of file: {}", choice.kind.name())?;
    Ok(out.flush()?)
}

/// Pairs as `--tensor-type-file` reads them.
fn write(choice: &Choice, path: &Path) -> Result<(), Error> {
    let line = |row: &target::Row| format!("{}={}\n", row.pattern(), row.format.name().to_lowercase());
    let text: String = choice.rows.iter().map(line).collect();
    Ok(candor_gguf::replace_file(path, |out| out.write_all(text.as_bytes()))?)
}
