//! `candor trace`: the values of a run, or of a run with a fault planted, to a file or as a table of statistics.

use std::{
    io::{self, Write},
    process::ExitCode,
    thread,
};

use candor::{Model, Session};
use candor_inspect::{
    Graph, Origin, catalogue,
    doctor::sha256,
    fault::{Active, Fault},
    file::TraceWriter,
    import::{self, ReadOptions},
    page,
    record::{Rows, Selection, Sink, Statistics, likeliest, record, replay_into},
    replay::{Arithmetic, Decoded, Stage, Tokens},
    simulate_taking,
};
use clap::error::ErrorKind;

use super::{
    error,
    logits::{USUAL, session_options},
    table::{Align, Table},
    tokens::Given,
};
use crate::{
    args::{Line, TraceArgs, inspect::SelectArgs},
    errors::Error,
    interrupt::Cleanup,
    near::nearest,
    open::{Opened, Source},
    output::{Bytes, Speed, say},
    paint::{Paint, Style},
    report,
    timing::{self, Timing},
    waiting::Waiting,
};

/// Elements of each value that the table shows.
const FIRST: usize = 3;

/// Runs the command.
pub fn trace(args: &TraceArgs, line: &Line) -> Result<ExitCode, Error> {
    let source = Source::of(line, &args.model)?.overridden(&args.overrides, line)?;
    if args.out.is_none() && !args.stats && !args.time {
        let message = "-o FILE says where to write the trace, --stats and --time print tables instead";
        return Err(line.usage_error(ErrorKind::MissingRequiredArgument, message));
    }
    let faults = args.plant.iter().map(|text| choices(text)).collect::<Result<Vec<_>, _>>()?;
    let given = Given::of(&args.tokens, line)?;
    let opened = source.open(
        &args.performance,
        Vec::new(),
        session_options(USUAL, &args.cache, &args.performance),
        &args.output,
    )?;
    let tokens = given.tokens(&opened.model)?;
    let selection = selection(&args.select);
    let graph = Graph::new(opened.model.gguf()).map_err(candor::Error::from)?;
    if args.time {
        return timed(args, &opened.model, &graph, &tokens);
    }
    selection.check(&graph)?;

    let mut statistics = Statistics::with_first(FIRST).of(&graph);
    let drafts = args.out.as_deref().map(TraceWriter::drafts).unwrap_or_default();
    let _cleanup = Cleanup::of_files(drafts.into());
    let mut writer = args.out.as_deref().map(TraceWriter::create).transpose()?;
    let mut sinks: Vec<&mut dyn Sink> = Vec::new();
    if args.stats {
        sinks.push(&mut statistics);
    }
    sinks.extend(writer.as_mut().map(|writer| writer as &mut dyn Sink));
    let origin = thread::scope(|scope| {
        // A large file takes a while to read: its hash is made while the model runs.
        let hash = args.out.as_ref().and(opened.source.path()).map(|path| (path, scope.spawn(move || sha256(path))));
        let mut run = Run { args, opened: &opened, graph: &graph, selection: &selection };
        let mut origin = match faults.is_empty() {
            true => run.healthy(&tokens, &mut sinks)?,
            false => run.planted(&tokens, &faults, &mut sinks)?,
        };
        origin.prompt = given.text().map(str::to_owned);
        if let Some((path, hash)) = hash {
            let _waiting = Waiting::new(args.output.progress, "hashing the model's file");
            let hash = hash.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            origin.model_sha256 = Some(hash.map_err(|error| Error::File { path: path.to_owned(), error })?);
        }
        Ok::<_, Error>(origin)
    })?;
    if let (Some(writer), Some(path)) = (writer, &args.out) {
        let waiting = Waiting::new(args.output.progress, "writing");
        writer.finish(&origin)?;
        drop(waiting);
        let size = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
        let tokens = origin.tokens.map_or(0, |tokens| tokens.len());
        say!("wrote {}: {} tokens, {}", path.display(), tokens, Bytes(size));
        if let Some(html) = &args.html {
            let trace = import::read(path, &ReadOptions::default())?;
            let title = name(&opened.model, &opened.source);
            let text = page(opened.model.gguf(), &trace, None, &title)?;
            std::fs::write(html, text).map_err(|error| Error::File { path: html.clone(), error })?;
            say!("wrote {}", html.display());
        }
    }
    if args.stats {
        print(&statistics)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs the prompt and the tokens after it, and prints what took the time.
fn timed(args: &TraceArgs, model: &Model, graph: &Graph, prompt: &[u32]) -> Result<ExitCode, Error> {
    timing::check(model)?;
    model.refuse_answers("candor trace --time")?;
    let context = prompt.len().saturating_add(args.steps);
    let mut session = model.session(&session_options(context, &args.cache, &args.performance))?;
    let most = args.performance.batch_size.min(args.performance.ubatch_size) as usize;
    let [mut read, mut decode] = [0, 1].map(|_| Timing::new(graph, &session, most));
    read.read(&mut session, prompt)?;
    for _ in 0..args.steps {
        let next = likeliest(session.logits());
        decode.decode(&mut session, next)?;
    }
    // What the machine can do is measured when nothing else runs.
    let ceilings = candor::ceilings(model, args.performance.place.threads as usize)?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    read.print("prompt", &ceilings, &mut out)?;
    decode.print("decode", &ceilings, &mut out)?;
    writeln!(out, "{}", timing::limits(&ceilings))?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn selection(args: &SelectArgs) -> Selection {
    Selection {
        layers: args.layers.clone().map(|layers| layers.0).unwrap_or_default(),
        names: args.names.clone(),
        rows: if args.last_only { Rows::Last } else { Rows::All },
    }
}

/// What is run.
struct Run<'a> {
    args: &'a TraceArgs,
    opened: &'a Opened,
    graph: &'a Graph,
    selection: &'a Selection,
}

impl Run<'_> {
    /// Runs the model on its device.
    fn healthy(&mut self, prompt: &[u32], sinks: &mut [&mut dyn Sink]) -> Result<Origin, Error> {
        let TraceArgs { steps, cache, performance, output, .. } = self.args;
        let model = &self.opened.model;
        let mut session = model.session(&session_options(self.context(prompt), cache, performance))?;
        if output.verbose {
            report::say_model(self.opened, &session, cache, performance);
        }
        let started = std::time::Instant::now();
        let waiting = Waiting::new(output.progress, "computing");
        record(&mut session, prompt, *steps, self.selection, sinks)?;
        drop(waiting);
        if output.verbose {
            say!("run: {}", Speed(session.tokens().len(), started.elapsed()));
        }
        let origin = self.origin(&self.tokens(&session, prompt));
        Ok(Origin { backend: Some(model.device_label().to_owned()), ..origin })
    }

    /// Runs the model to find the tokens, and then the formulas with faults.
    fn planted(
        &mut self,
        prompt: &[u32],
        faults: &[Vec<Active>],
        sinks: &mut [&mut dyn Sink],
    ) -> Result<Origin, Error> {
        let _waiting = Waiting::new(self.args.output.progress, "computing");
        let tokens = {
            let nothing = Selection { names: vec![String::new()], ..Selection::default() };
            let TraceArgs { steps, cache, performance, .. } = self.args;
            let options = session_options(self.context(prompt), cache, performance);
            let mut session = self.opened.model.session(&options)?;
            record(&mut session, prompt, *steps, &nothing, &mut [])?;
            self.tokens(&session, prompt)
        };
        let decoded = Decoded::default();
        let stage = Stage { graph: self.graph, gguf: self.opened.model.gguf(), tokens: &tokens, decoded: &decoded };
        // A number that was not given is the first with which the faults change something.
        let trace = combinations(faults).find_map(|faults| {
            simulate_taking(&stage, Arithmetic::default(), &faults, |node| self.selection.takes(node))
        });
        let names = || faults.iter().filter_map(|choices| Some(choices.first()?.fault.name)).collect::<Vec<_>>();
        let trace = trace.ok_or_else(|| error::Error::Idle { faults: names().join(", ") })?;
        replay_into(&trace, self.selection, sinks)?;
        let origin = self.origin(&tokens);
        let engine = origin.engine.map(|engine| format!("{engine} with {} planted", names().join(", ")));
        Ok(Origin { engine, backend: Some("formulas in f64".to_owned()), ..origin })
    }

    /// Positions of a session: where a text is answered, of the longer one.
    fn context(&self, prompt: &[u32]) -> usize {
        let tokens = if self.opened.model.is_encoder_decoder() { 1 } else { prompt.len() };
        tokens.saturating_add(self.args.steps).max(prompt.len())
    }

    /// What a session was given and what came of it.
    fn tokens(&self, session: &Session, prompt: &[u32]) -> Tokens {
        let together = if session.text().is_empty() { prompt.len() } else { 1 };
        Tokens { text: session.text().to_vec(), ..Tokens::new(session.tokens().to_vec(), together) }
    }

    fn origin(&self, tokens: &Tokens) -> Origin {
        Origin {
            engine: Some(concat!("candor ", env!("CARGO_PKG_VERSION")).to_owned()),
            model: Some(name(&self.opened.model, &self.opened.source)),
            tokens: Some(tokens.ids.clone()),
            prompt_tokens: Some(tokens.prompt),
            text: Some(tokens.text.clone()).filter(|text| !text.is_empty()),
            ..Origin::default()
        }
    }
}

fn name(model: &Model, source: &Source) -> String {
    let named = model.gguf().metadata().str("general.name").ok().flatten().map(str::to_owned);
    named.unwrap_or_else(|| match source.path() {
        None => source.name(),
        Some(path) => path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
    })
}

/// The faults that `NAME` or `NAME=NUMBER` may mean: one, or one for every number that it has.
fn choices(text: &str) -> Result<Vec<Active>, error::Error> {
    let (name, number) = text.split_once('=').map_or((text, None), |(name, number)| (name, Some(number)));
    let fault: &'static Fault = catalogue().find(|fault| fault.name == name).ok_or_else(|| {
        error::Error::UnknownFault { name: name.to_owned(), near: nearest(name, catalogue().map(|fault| fault.name)) }
    })?;
    let all = fault.variants.iter().map(|&variant| Active::new(fault, variant));
    let Some(number) = number else { return Ok(all.collect()) };
    let chosen: Vec<Active> = all.filter(|active| numbered(fault) && number.parse() == Ok(active.variant)).collect();
    if chosen.is_empty() {
        let numbers = || fault.variants.iter().map(f64::to_string).collect::<Vec<_>>().join(", ");
        let expected = if numbered(fault) { numbers() } else { "no number".to_owned() };
        return Err(error::Error::FaultNumber { fault: fault.name, expected, got: number.to_owned() });
    }
    Ok(chosen)
}

/// Whether a fault comes with numbers: one without has a single 0.
pub fn numbered(fault: &Fault) -> bool {
    fault.variants != [0.0]
}

/// Every choice of one from each.
fn combinations(faults: &[Vec<Active>]) -> impl Iterator<Item = Vec<Active>> {
    let mut all: Vec<Vec<Active>> = vec![Vec::new()];
    for choices in faults {
        let longer = |chosen: &Vec<Active>| {
            let chosen = chosen.clone();
            choices.iter().map(move |&active| [chosen.clone(), vec![active]].concat()).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(longer).collect();
    }
    all.into_iter()
}

fn print(statistics: &Statistics) -> Result<(), Error> {
    let right = Align::Right;
    let columns = ["rows", "width", "rms", "mean", "min", "max", "zeros", "nan", "inf"].map(|name| (name, right));
    let mut table = Table::new(&[&[("value", Align::Left)], columns.as_slice()].concat());
    let entropies = statistics.summaries().any(|summary| summary.entropy.is_some());
    if entropies {
        table.column("bits", right);
        table.column("of", right);
    }
    table.column("first", Align::Left);
    for summary in statistics.summaries() {
        let number = |x: f64| if x.is_finite() { format!("{x:.5}") } else { "-".to_owned() };
        let counts = [summary.zeros, summary.nan, summary.infinite].map(|count| count.to_string());
        let mut cells = vec![summary.key.to_string(), summary.rows.to_string(), summary.width.to_string()];
        cells.extend([summary.rms, summary.mean, f64::from(summary.min), f64::from(summary.max)].map(number));
        cells.extend(counts);
        if entropies {
            let bits = |bits: f64| format!("{bits:.3}");
            cells.extend(summary.entropy.map_or([String::new(), String::new()], |both| both.map(bits)));
        }
        cells.push(summary.first.iter().map(|&x| format!("{x:.5}")).collect::<Vec<_>>().join(" "));
        table.row(cells, (summary.nan + summary.infinite > 0).then_some(Style::Red));
    }
    let mut out = io::BufWriter::new(io::stdout().lock());
    table.print(Paint::of_stdout(), &mut out)?;
    Ok(out.flush()?)
}
