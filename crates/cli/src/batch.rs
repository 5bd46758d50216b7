//! `candor batch`: answers a file of requests.

use std::{process::ExitCode, time::Instant};

use candor_server::{Batch, Stop};

use crate::{
    args::{BatchArgs, Line},
    bar::Bar,
    errors::Error,
    interrupt::{EXIT_CODE, Interrupt},
    output::say,
    served::Served,
};

/// Runs the command.
pub fn batch(args: &BatchArgs, line: &Line) -> Result<ExitCode, Error> {
    let served = Served::of(&args.served, line)?;
    let model = served.one(&args.served, line)?;
    let mut batch = Batch::open(&args.requests, &args.answers).map_err(candor_server::Failure::from)?;
    let count = batch.count();
    if count == 0 {
        say!("there are 0 requests in {}", args.requests.display());
    }
    if batch.answered() > 0 {
        say!("{} of {count} requests are answered already", batch.answered());
    }
    if batch.answered() == count {
        return Ok(ExitCode::SUCCESS);
    }
    // Ctrl-C ends it once the answers that are there are written, a second one at once.
    let interrupt = Interrupt::catch()?;
    let _answering = interrupt.answering();
    let template = "answering {wide_bar} {pos} of {len} requests, {eta} left";
    let mut bar = Bar::new(args.served.output.progress, template, Instant::now());
    batch.answer(served.config, model, &Stop::on_signals(), |done| bar.set(done as u64, count as u64))?;
    drop(bar);
    let done = batch.answered();
    if done < count {
        say!("{done} of {count} requests are answered: the same command goes on");
        return Ok(ExitCode::from(EXIT_CODE));
    }
    say!("{count} requests are answered: {}", args.answers.display());
    Ok(ExitCode::SUCCESS)
}
