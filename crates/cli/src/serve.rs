//! `candor serve`: answers over HTTP.

use std::process::ExitCode;

use candor_server::Stop;

use crate::{
    args::{Line, ServeArgs},
    errors::Error,
    interrupt::Interrupt,
    output::say,
    served::Served,
};

/// Runs the command.
pub fn serve(args: &ServeArgs, line: &Line) -> Result<ExitCode, Error> {
    let Served { mut config, load } = Served::of(&args.served, line)?;
    config.host.clone_from(&args.host);
    config.port = args.port;
    config.keys.clone_from(&args.api_key);
    config.hosts.clone_from(&args.allowed_hosts);
    config.origins.clone_from(&args.cors_origins);
    (config.metrics, config.slots, config.traces) = (args.metrics, args.slots, args.traces);
    // Ctrl-C ends the server once what it answers is answered, a second one at once.
    let interrupt = Interrupt::catch()?;
    let _answering = interrupt.answering();
    candor_server::serve(config, load, &Stop::on_signals(), |address| say!("listening at http://{address}"))?;
    Ok(ExitCode::SUCCESS)
}
