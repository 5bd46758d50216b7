//! `candor serve`: answers over HTTP.

#[cfg(feature = "otel")]
mod spans;

use std::{io::Write, process::ExitCode, time::Duration};

use candor_server::{Models, Stop, Tls};
use clap::error::ErrorKind;

use crate::{
    args::{Line, ServeArgs},
    errors::Error,
    interrupt::Interrupt,
    output::say,
    served::Served,
};

/// Runs the command.
pub fn serve(args: &ServeArgs, line: &Line) -> Result<ExitCode, Error> {
    let served = Served::of(&args.served, line)?;
    let several = match line.exclusive(&["path", "model", "hf_repo", "model_url", "models_dir"])? {
        Some("models_dir") => args.several.models_dir.as_deref(),
        _ => None,
    };
    let models = match several {
        Some(folder) => Models::Several(served.several(folder, &args.served, line)?),
        None => Models::One(served.one(&args.served, line)?),
    };
    let mut config = served.config;
    (config.models_max, config.autoload) = (args.several.models_max, !args.several.no_models_autoload);
    config.idle = u64::try_from(args.several.sleep_idle_seconds).ok().map(Duration::from_secs);
    config.host.clone_from(&args.host);
    config.port = args.port;
    config.keys.clone_from(&args.api_key);
    config.hosts.clone_from(&args.allowed_hosts);
    config.origins.clone_from(&args.cors_origins);
    (config.metrics, config.slots, config.traces) = (args.metrics, args.slots, args.traces);
    config.tls = match (args.ssl_cert_file.clone(), args.ssl_key_file.clone()) {
        (Some(certificate), Some(key)) => Some(Tls { certificate, key }),
        (None, None) => None,
        _ => {
            let message = "--ssl-key-file and --ssl-cert-file need each other".to_owned();
            return Err(line.usage_error(ErrorKind::MissingRequiredArgument, message));
        }
    };
    config.log = args.log_jsonl.then_some(print);
    #[cfg(feature = "otel")]
    let _spans = spans::start(args.otlp_traces_endpoint.as_deref(), &mut config)?;
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    // Ctrl-C ends the server once what it answers is answered, a second one at once.
    let interrupt = Interrupt::catch()?;
    let _answering = interrupt.answering();
    let listening = |address| say!("listening at {scheme}://{address}");
    candor_server::serve(config, models, &Stop::on_signals(), listening)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints a line of the log. A stdout that is closed is no reason to stop.
fn print(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
