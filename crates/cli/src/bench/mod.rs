//! `candor bench`: how fast a model reads prompts and writes tokens, measured as llama-bench does, and how near that is
//! to what the machine could do.

mod data;
mod machine;
mod markdown;
mod measure;
mod plan;
mod printer;
mod result;
mod work;

use std::{
    io::{self, IsTerminal, Write},
    process::ExitCode,
};

use candor::{Adapter, Ceilings, CivilTime, GpuCeilings, LoadOptions, Model, Offload, Verify, Weights};
use candor_inspect::Graph;
use clap::error::ErrorKind;

use crate::{
    args::{BenchArgs, Line, When, bench::BenchFormat},
    errors::Error,
    interrupt::{self, Interrupt},
    open::Source,
    output::say,
    report, timing,
};
use measure::Runs;
use plan::{Plan, Setup, Site, Test};
use printer::Printer;
use result::{Measured, Memory, Place, Runner, Subject};

/// Runs the command.
pub fn bench(args: &BenchArgs, line: &Line) -> Result<ExitCode, Error> {
    let sources = sources(args, line)?;
    let plan = Plan::of(args);
    if plan.tests.is_empty() {
        let message = "there is nothing to measure: give -p, -n or -pg a number of tokens";
        return Err(line.usage_error(ErrorKind::ValueValidation, message));
    }
    if args.ops && args.output != BenchFormat::Md {
        return Err(line.usage_error(ErrorKind::ArgumentConflict, "--ops prints tables for people to read: -o md"));
    }
    let interrupt = Interrupt::catch()?;
    let answering = interrupt.answering();
    let cancel = answering.cancel();
    let mut bench = Bench {
        plan: &plan,
        runs: Runs { repetitions: args.repetitions, warmup: !args.no_warmup, cancel: &cancel },
        progress: args.progress,
        done: 0,
        total: sources.len() * plan.sites.len() * plan.tests.len(),
        ops: args.ops,
        times: Vec::new(),
        notes: vec![format!("build: {}", env!("CARGO_PKG_VERSION"))],
        adapters: args.lora.open()?,
        memory: Memory { mapped: !args.no_mmap, huge_pages: args.huge_pages },
    };
    for adapter in &bench.adapters {
        bench.notes.push(format!("adapter: {} by {}", adapter.name(), adapter.scale()));
    }
    let mut printer = Printer::begin(io::stdout().lock(), args.output, &plan)?;
    // Also where a model or a test cannot be run the page is ended: what is above was measured.
    let whole = sources.iter().try_fold(true, |whole, source| Ok(whole && bench.model(source, &mut printer)?));
    if !matches!(whole, Err(Error::Closed)) {
        printer.end(&bench.notes)?;
        io::stdout().lock().write_all(&bench.times)?;
    }
    if !whole? {
        say!("stopped: {} of {} tests were measured", bench.done, bench.total);
        return Ok(ExitCode::from(interrupt::EXIT_CODE));
    }
    Ok(ExitCode::SUCCESS)
}

/// The models that the arguments name.
fn sources(args: &BenchArgs, line: &Line) -> Result<Vec<Source>, Error> {
    let paths = match line.exclusive(&["path", "model", "hf_repo", "model_url"])? {
        Some("path") => &args.path[..],
        Some("model") => &args.model,
        _ => &[],
    };
    let sources = match paths {
        [] => vec![Source::named(line, line.exclusive(&["hf_repo", "model_url"])?, &args.from)?],
        paths => paths.iter().map(|path| Source::meant(line, path)).collect::<Result<_, _>>()?,
    };
    sources.into_iter().map(|source| source.overridden(&args.overrides, line)).collect()
}

/// What the GPU can do at most on which a model lies; `None`, and said, if that cannot be measured.
fn gpu_ceilings(model: &Model) -> Option<GpuCeilings> {
    candor::gpu_ceilings(model).unwrap_or_else(|error| {
        say!("note: what the GPU can do at most is not known: {error}");
        None
    })
}

/// A command on its way.
struct Bench<'a> {
    plan: &'a Plan,
    runs: Runs<'a>,
    progress: When,
    done: usize,
    total: usize,
    /// Whether operations are timed.
    ops: bool,
    /// Their tables, which follow the notes.
    times: Vec<u8>,
    /// What is said below the table.
    notes: Vec<String>,
    /// What changes the models.
    adapters: Vec<Adapter>,
    /// What the models lie in.
    memory: Memory,
}

impl Bench<'_> {
    /// Measures a model; whether all tests were run.
    fn model(&mut self, source: &Source, printer: &mut Printer<impl Write>) -> Result<bool, Error> {
        for site in &self.plan.sites {
            let (device, names) = site.device.parts();
            let offload = Offload::default().names(names).layers(site.layers.0);
            let (threads, batching, session) = (site.threads as usize, site.batching, self.plan.largest());
            let adapters = self.adapters.clone();
            let weights = if self.memory.mapped { Weights::Mapped } else { Weights::Read };
            // A device is measured as it is.
            let verify = Verify::Off;
            let options = LoadOptions::default()
                .device(device)
                .offload(offload)
                .verify(verify)
                .threads(threads)
                .batching(batching)
                .activations(site.activations)
                .weights(weights)
                .huge_pages(self.memory.huge_pages)
                .session(session)
                .adapters(adapters);
            let model = source.clone().open_with(&options, self.progress)?.model;
            model.refuse_answers("candor bench")?;
            if !self.tests(source, &model, site, printer)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Measures a model on a site.
    fn tests(
        &mut self,
        source: &Source,
        model: &Model,
        site: &Site,
        printer: &mut Printer<impl Write>,
    ) -> Result<bool, Error> {
        let subject = Subject::of(source.name(), model.gguf());
        let counter = work::Counter::of(model.gguf())?;
        let longest = self.plan.tests.iter().map(|(_, test)| test.context()).max().unwrap_or(0);
        let encodes = model.is_encoder();
        if !encodes && longest > model.config().context as u64 {
            let own = model.config().context;
            say!(
                "note: a test needs {longest} positions, the model was trained on {own}: speeds are right, texts would not be"
            );
        }
        self.say(format_args!("measuring what the machine can do"));
        let ceilings = candor::ceilings(model, site.threads as usize)?;
        let runner = Runner::of(model);
        let gpu = if runner.is_gpu() { gpu_ceilings(model) } else { None };
        let memory = self.memory;
        let place = Place { cpu: machine::processor(), ceilings, gpu, site: site.clone(), runner, memory };
        self.notes.push(place.note());
        self.notes.extend(report::weights(model, self.memory.mapped));
        if encodes && self.plan.tests.iter().any(|(_, test)| !test.encodes()) {
            say!("note: {} is an encoder: only prompts of one text are measured", subject.kind);
        }
        for &(setup, test) in self.plan.tests.iter().filter(|(_, test)| !encodes || test.encodes()) {
            self.say(format_args!("{}/{}: {} {test}", self.done + 1, self.total, subject.kind));
            let time = CivilTime::utc_now().and_then(|now| now.format("%Y-%m-%dT%H:%M:%SZ").ok()).unwrap_or_default();
            let samples = measure::measure(model, setup, test, &self.runs);
            let samples = samples.map_err(|error| Error::Test { test: test.to_string(), error: Box::new(error) })?;
            let Some(samples) = samples else { return Ok(false) };
            let work = counter.count(setup, test)?;
            let huge_share = report::huge_share(model);
            printer.add(&Measured {
                subject: &subject,
                place: &place,
                setup,
                test,
                work,
                samples,
                huge_share,
                time,
            })?;
            self.done += 1;
            if self.ops && !self.times(model, (setup, test), &place.ceilings)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Times the operations of a test; whether it came to its end.
    fn times(&mut self, model: &Model, (setup, test): (Setup, Test), ceilings: &Ceilings) -> Result<bool, Error> {
        #[cfg(feature = "gpu")]
        if Runner::of(model).is_gpu() {
            writeln!(self.times)?;
            return measure::kernels(model, (setup, test), &self.runs, &mut self.times);
        }
        timing::check(model)?;
        if model.is_encoder() || test.sequences > 1 {
            say!("note: --ops leaves out {test}: it times one sequence that is continued");
            return Ok(true);
        }
        let graph = Graph::new(model.gguf()).map_err(candor::Error::from)?;
        writeln!(self.times)?;
        measure::times(model, (setup, test), &graph, &self.runs, ceilings, &mut self.times)
    }

    fn say(&self, what: std::fmt::Arguments<'_>) {
        let shown = match self.progress {
            When::Auto => io::stderr().is_terminal(),
            When::Always => true,
            When::Never => false,
        };
        if shown {
            say!("bench: {what}");
        }
    }
}
