//! `candor serve`: answers over HTTP.

use std::{path::Path, process::ExitCode};

use candor::{BatchOptions, Engine};
use candor_server::{Config, Ready, Stop};

use crate::{
    answer,
    args::{Line, ServeArgs},
    errors::Error,
    interrupt::Interrupt,
    open::Source,
    output::say,
    template, text,
};

/// Rows of prompts in a step beside answers that are being written.
const PROMPT_ROWS: usize = 64;

/// Runs the command.
pub fn serve(args: &ServeArgs, line: &Line) -> Result<ExitCode, Error> {
    let source = Source::of(line, &args.model)?.overridden(&args.overrides, line)?;
    let sampling = args.sampling.sampling(|text| text::escaped(text, false))?;
    sampling.validate().map_err(candor::Error::from)?;
    let template = template::named_or_read(line, args.chat_template.as_deref(), args.chat_template_file.as_deref())?;
    let mut config = Config::default();
    config.host.clone_from(&args.host);
    config.port = args.port;
    config.keys.clone_from(&args.api_key);
    config.hosts.clone_from(&args.allowed_hosts);
    config.origins.clone_from(&args.cors_origins);
    config.verbose = args.output.verbose;
    (config.sampling, config.max_tokens) = (sampling, usize::try_from(args.predict).ok());
    config.template_variables = args.chat_template_kwargs.clone().unwrap_or_default().0;
    let adapters = args.lora.open()?;
    let (performance, output) = (args.performance.clone(), args.output.clone());
    let session = answer::conversation(&args.context, &args.performance);
    let (batch, alias) = (batch(args), args.alias.clone());
    let load = move || {
        let path = source.path().map(Path::to_owned);
        let stem = || path.as_deref().and_then(Path::file_stem).map(|stem| stem.to_string_lossy().into_owned());
        let name = alias.or_else(stem).unwrap_or_else(|| "built-in".to_owned());
        let opened = source.open(&performance, adapters, session, &output)?;
        opened.model.refuse_answers("candor serve")?;
        let engine = Engine::new(opened.model.batch(&batch)?, PROMPT_ROWS);
        say!("ready: {} answers at once, a context of {} tokens each", engine.sequences(), engine.context());
        Ok(Ready { engine, name, path, template })
    };
    // Ctrl-C ends the server once what it answers is answered, a second one at once.
    let interrupt = Interrupt::catch()?;
    let _answering = interrupt.answering();
    candor_server::serve(config, load, &Stop::on_signals(), |address| say!("listening at http://{address}"))?;
    Ok(ExitCode::SUCCESS)
}

/// The sequences that answers are written in.
fn batch(args: &ServeArgs) -> BatchOptions {
    // 0 means the model's own.
    let all = args.context.ctx_size as usize;
    let (context, pool) = match all {
        0 => (0, None),
        _ if args.kv_unified => (all, Some(all)),
        _ => ((all / args.parallel).max(1), None),
    };
    BatchOptions::default()
        .sequences(args.parallel)
        .pool(pool)
        .context(context)
        .least_context(args.context.fit_ctx as usize)
        .fit(args.context.fit)
        // One for each answer that is written, and one for a prompt.
        .rows((args.performance.ubatch_size as usize).max(args.parallel + 1))
        .keys(answer::kv_format(args.context.cache.cache_type_k))
        .values(answer::kv_format(args.context.cache.cache_type_v))
}
