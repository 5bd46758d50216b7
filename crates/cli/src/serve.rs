//! `candor serve`: answers over HTTP.

use std::process::ExitCode;

use candor::{BatchOptions, Engine, Pooling, SessionOptions};
use candor_server::{Config, Ready, Stop, Work};

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
    (config.metrics, config.slots) = (args.metrics, args.slots);
    (config.sampling, config.max_tokens) = (sampling, usize::try_from(args.predict).ok());
    config.template_variables = args.chat_template_kwargs.clone().unwrap_or_default().0;
    let adapters = args.lora.open()?;
    let (performance, output) = (args.performance.clone(), args.output.clone());
    let mut vectors = args.vectors.options(&args.performance);
    if line.exclusive(&["pooling", "reranking"])? == Some("reranking") && args.reranking {
        vectors = vectors.pooling(Pooling::Rank);
    }
    let makes_vectors = args.embedding || vectors.pooling.is_some();
    let session = match makes_vectors {
        true => SessionOptions::default().batch(vectors.rows).ubatch(vectors.rows).context(vectors.rows).fit(false),
        false => answer::conversation(&args.context, &args.performance),
    };
    let batch = batch(args);
    let load = move || {
        let name = source.path().and_then(|path| path.file_stem()).map(|stem| stem.to_string_lossy().into_owned());
        let opened = source.open(&performance, adapters, session, &output)?;
        let model = opened.model;
        let work = if makes_vectors || model.is_encoder() || Pooling::said(&model)?.is_some() {
            let embedder = model.embedder(&vectors)?;
            let (width, context) = (embedder.width(), model.config().context);
            match embedder.pooling() {
                Pooling::Rank => say!("ready: scores of pairs of up to {context} tokens"),
                _ => say!("ready: vectors of {width} numbers, of texts of up to {context} tokens"),
            }
            Work::Vectors(embedder)
        } else {
            model.refuse_answers("candor serve")?;
            let engine = Engine::new(model.batch(&batch)?, PROMPT_ROWS);
            say!("ready: {} answers at once, a context of {} tokens each", engine.sequences(), engine.context());
            Work::Answers(engine)
        };
        Ok(Ready { work, name: name.unwrap_or_else(|| "built-in".to_owned()), template })
    };
    // Ctrl-C ends the server once what it answers is answered, a second one at once.
    let interrupt = Interrupt::catch()?;
    let _answering = interrupt.answering();
    candor_server::serve(config, load, &Stop::on_signals(), |address| say!("listening at http://{address}"))?;
    Ok(ExitCode::SUCCESS)
}

/// The sequences that answers are written in.
fn batch(args: &ServeArgs) -> BatchOptions {
    let context = args.context.ctx_size as usize / args.parallel;
    // 0 means the model's own.
    let context = if args.context.ctx_size > 0 { context.max(1) } else { 0 };
    BatchOptions::default()
        .sequences(args.parallel)
        .context(context)
        .least_context(args.context.fit_ctx as usize)
        .fit(args.context.fit)
        .rows((args.performance.ubatch_size as usize).max(args.parallel + PROMPT_ROWS))
        .keys(answer::kv_format(args.context.cache.cache_type_k))
        .values(answer::kv_format(args.context.cache.cache_type_v))
}
