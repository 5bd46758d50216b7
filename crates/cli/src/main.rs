//! The `candor` command: a thin shell over the library. It reads arguments, prints, and knows the terminal.
#![forbid(unsafe_code)]

mod answer;
mod args;
mod bar;
mod batch;
mod bench;
mod chat;
mod complete;
mod config;
mod conversation;
mod devices;
mod embed;
mod errors;
mod gguf;
mod hub;
mod imatrix;
mod inspect;
mod interrupt;
mod library;
mod logprobs;
mod memory;
mod near;
mod open;
mod output;
mod paint;
mod perplexity;
mod prompt_cache;
mod quantize;
mod report;
mod run;
mod serve;
mod served;
mod settings;
mod shape;
mod show;
mod siblings;
mod speculation;
mod template;
mod text;
mod timing;
mod tokenize;
mod trust;
mod waiting;
mod wrap;
mod written;

use std::{env, panic, process::ExitCode};

use args::{Command, Parsed};
use errors::Error;
use interrupt::Interrupt;

fn main() -> ExitCode {
    let show_panic = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        show_panic(info);
        output::say!("this is a bug of candor {}: please report the lines above", env!("CARGO_PKG_VERSION"));
    }));
    run_command().unwrap_or_else(|error| error.report())
}

fn run_command() -> Result<ExitCode, Error> {
    let Parsed { command, line } = args::parse::parse(env::args_os())?;
    // Whatever runs, Ctrl-C ends it and takes back what is half done.
    Interrupt::catch()?;
    let done = match command {
        Command::Run(args) if run::is_conversation(&args) => chat::chat(&args.into_chat(), &line),
        Command::Run(args) => run::run(&args, &line),
        Command::Chat(args) => chat::chat(&args, &line),
        Command::Serve(args) => serve::serve(&args, &line),
        Command::Batch(args) => batch::batch(&args, &line),
        Command::Pull(args) => hub::pull(&args),
        Command::List(args) => hub::list(&args),
        Command::Rm(args) => hub::rm(&args),
        Command::Show(args) => show::show(&args, &line),
        Command::Tokenize(args) => tokenize::tokenize(&args, &line),
        Command::Perplexity(args) => perplexity::perplexity(&args, &line),
        Command::Compare(args) => inspect::compare::compare(&args),
        Command::Gguf(args) => gguf::gguf(&args, &line),
        Command::Imatrix(args) => imatrix::imatrix(&args, &line),
        Command::Quantize(args) => quantize::quantize(&args, &line),
        Command::Embed(args) => embed::embed(&args, &line),
        Command::Rerank(args) => embed::rerank(&args, &line),
        Command::Bench(args) => bench::bench(&args, &line),
        Command::Trace(args) => inspect::trace::trace(&args, &line),
        Command::Logits(args) => inspect::logits::logits(&args, &line),
        // What these print is a verdict, with exit codes 0 and 1: not to get to one is something else.
        Command::Diagnose(args) => inspect::diagnose::diagnose(&args, &line).map_err(Error::undecided),
        Command::Verify(args) => inspect::verify::verify(&args, &line).map_err(Error::undecided),
        Command::Doctor(args) => inspect::doctor::doctor(&args, &line).map_err(Error::undecided),
        Command::Devices(args) => devices::devices(&args),
        Command::Config(args) => settings::config(&args, &line),
        Command::Completions { shell } => complete::completions(shell),
        Command::Man { command } => complete::man(command.as_deref()),
        Command::Version => complete::version(),
    };
    done.map_err(|error| line.with_origin(error))
}
