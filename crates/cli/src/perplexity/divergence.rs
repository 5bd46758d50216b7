//! `candor perplexity --kl-divergence`: a model beside its base, or beside what llama-perplexity kept of one.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use candor_inspect::divergence::{self, Divergence, Estimate, Figures, LogitsReader, Spread};

use super::given;
use crate::{
    answer,
    args::{Line, PerplexityArgs},
    errors::Error,
    inspect::json,
    open::Source,
    output::say,
    waiting::Waiting,
};

/// Runs the command.
pub fn divergence(args: &PerplexityArgs, source: Source, line: &Line) -> Result<ExitCode, Error> {
    let base = args.divergence.kl_divergence_base.clone().unwrap_or_default();
    let found =
        if LogitsReader::is_one(&base)? { of_file(args, source, &base, line) } else { of_models(args, source, base) }?;
    let figures = found.figures();
    if args.divergence.json {
        json::print(&figures)?;
    } else {
        print(&figures)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Against probabilities in a file, on its text.
fn of_file(args: &PerplexityArgs, source: Source, base: &Path, line: &Line) -> Result<Divergence, Error> {
    for flag in ["file", "ctx_size", "chunks"] {
        line.exclusive(&[flag, "kl_divergence_base"])?;
    }
    let base = LogitsReader::open(base)?;
    let window = u32::try_from(base.window()).unwrap_or(u32::MAX);
    let (_, mut session) = given::open(args, source, window)?;
    let mut progress = Progress::new(args);
    Ok(divergence::of_file(base, &mut session, |so_far, windows| progress.hear(so_far, windows))?)
}

/// Against another model, side by side.
fn of_models(args: &PerplexityArgs, source: Source, base: PathBuf) -> Result<Divergence, Error> {
    let text = given::text(args)?;
    let options = answer::session_options(args.ctx_size, &args.cache, &args.performance);
    let base = Source::file(base).open(&args.performance, Vec::new(), options, &args.output)?;
    let mut beside = base.model.session(&options)?;
    let (opened, mut session) = given::open(args, source, args.ctx_size)?;
    let tokens = given::tokens(args, &opened.model, text);
    let windows = given::windows(args, &opened.model, &tokens, args.ctx_size as usize)?;
    given::note(args, &opened, &session, &windows);
    let mut progress = Progress::new(args);
    Ok(divergence::of_models(&mut beside, &mut session, &windows, |so_far, windows| progress.hear(so_far, windows))?)
}

/// A line after each window, and a spinner between them.
struct Progress<'a> {
    args: &'a PerplexityArgs,
    waiting: Option<Waiting>,
}

impl Progress<'_> {
    fn new(args: &PerplexityArgs) -> Progress<'_> {
        Progress { args, waiting: Some(Waiting::new(args.output.progress, "computing")) }
    }

    fn hear(&mut self, so_far: &Divergence, windows: usize) {
        drop(self.waiting.take());
        let mean = so_far.mean();
        say!("[{}/{windows}] {:.5} +/- {:.5}", so_far.windows(), mean.value, mean.error);
        self.waiting = Some(Waiting::new(self.args.output.progress, "computing"));
    }
}

/// Prints all figures under llama-perplexity's names.
fn print(figures: &Figures) -> Result<(), Error> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    let line = |name: &str, Estimate { value, error }: Estimate| format!("{name:<30}: {value:>10.6} ± {error:>10.6}");
    let percent = |name: &str, Estimate { value, error }: Estimate| {
        format!("{name}: {:>6.3} ± {:>5.3} %", 100.0 * value, 100.0 * error)
    };
    writeln!(out, "====== Perplexity statistics ======")?;
    writeln!(out, "{}", line("Mean PPL(Q)", figures.perplexity))?;
    writeln!(out, "{}", line("Mean PPL(base)", figures.base_perplexity))?;
    writeln!(out, "Cor(ln(PPL(Q)), ln(PPL(base))): {:>6.2}%", 100.0 * figures.correlation)?;
    writeln!(out, "{}", line("Mean ln(PPL(Q)/PPL(base))", figures.log_ratio))?;
    writeln!(out, "{}", line("Mean PPL(Q)/PPL(base)", figures.ratio))?;
    writeln!(out, "{}", line("Mean PPL(Q)-PPL(base)", figures.difference))?;
    writeln!(out, "\n====== KL divergence statistics ======")?;
    let Estimate { value, error } = figures.divergence.mean;
    writeln!(out, "Mean    KLD: {value:>10.6} ± {error:>10.6}")?;
    for (name, value) in places(&figures.divergence) {
        writeln!(out, "{name} KLD: {value:>10.6}")?;
    }
    writeln!(out, "\n====== Token probability statistics ======")?;
    writeln!(out, "{}", percent("Mean    Δp", figures.change.mean))?;
    for (name, value) in places(&figures.change) {
        writeln!(out, "{name} Δp: {:>6.3}%", 100.0 * value)?;
    }
    writeln!(out, "{}", percent("RMS Δp    ", figures.change_rms))?;
    writeln!(out, "{}", percent("Same top p", figures.same_top))?;
    Ok(out.flush()?)
}

/// The values of a spread from the greatest to the least, with their names.
fn places(spread: &Spread) -> Vec<(String, f64)> {
    let share = |&(share, value): &(f64, f64)| {
        let name = if share == 50.0 { "Median ".to_owned() } else { format!("{share:>4.1}%  ") };
        (name, value)
    };
    let mut places = vec![("Maximum".to_owned(), spread.maximum)];
    places.extend(spread.percentiles.iter().map(share));
    places.push(("Minimum".to_owned(), spread.minimum));
    places
}
