//! The model that `candor serve` and `candor batch` answer with.

use std::{path::Path, sync::Arc};

use candor::{BatchOptions, Engine, LoadOptions, Model, Pooling, SessionOptions};
use candor_inspect::verify::{answered, processor};
use candor_ops::{KvFormat, LayerCache};
use candor_server::{Config, Diagnose, Loaded, Operations, Ready, Work};

use crate::{
    answer,
    args::{Line, ServedArgs},
    errors::Error,
    open::Source,
    output::say,
    template, text,
};

/// Rows of prompts in a step beside answers that are being written.
const PROMPT_ROWS: usize = 64;

/// Beginnings of prompts that are kept beside answers, at least, where each costs nothing but its pages.
const KEPT: usize = 32;

/// How to answer, and what loads the model.
pub struct Served {
    pub config: Config,
    pub load: Box<dyn FnOnce() -> Result<Loaded, Error> + Send>,
}

impl Served {
    /// What the arguments say.
    ///
    /// # Errors
    /// If they contradict each other, or a file that they name cannot be read.
    pub fn of(args: &ServedArgs, line: &Line) -> Result<Served, Error> {
        let source = Source::of(line, &args.model)?.overridden(&args.overrides, line)?;
        let sampling = args.sampling.sampling(|text| text::escaped(text, false))?;
        sampling.validate().map_err(candor::Error::from)?;
        let template =
            template::named_or_read(line, args.chat_template.as_deref(), args.chat_template_file.as_deref())?;
        let mut config = Config::default();
        (config.sampling, config.max_tokens) = (sampling, usize::try_from(args.predict).ok());
        config.verbose = args.output.verbose;
        config.cache_prompt = !args.no_cache_prompt;
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
        let (batch, caches, alias) = (batch(args), !args.no_cache_prompt, args.alias.clone());
        let load = move || {
            let path = source.path().map(Path::to_owned);
            let stem = || path.as_deref().and_then(Path::file_stem).map(|stem| stem.to_string_lossy().into_owned());
            let name = alias.or_else(stem).unwrap_or_else(|| "built-in".to_owned());
            let opened = source.open(&performance, adapters, session, &output)?;
            let model = opened.model;
            // GPUs were verified before the model was loaded on one.
            if !performance.no_verify {
                let found = processor(model.gguf(), &performance.load()?.session(session))?;
                if let Some(failure) = found.failure() {
                    say!("this machine computes the model wrongly, and nothing is answered: {failure}");
                    return Ok(Loaded::Wrong(failure));
                }
            }
            let diagnose = diagnose(&model, performance.load()?.session(session));
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
                let kept = if caches { kept(&model, batch.sequences) } else { 0 };
                let engine = Engine::new(model.batch(&batch.kept(kept))?, PROMPT_ROWS);
                say!("ready: {} answers at once, a context of {} tokens each", engine.sequences(), engine.context());
                Work::Answers(engine)
            };
            Ok(Loaded::Ready(Box::new(Ready { work, name, path, template, diagnose })))
        };
        Ok(Served { config, load: Box::new(load) })
    }
}

/// What holds answers' operations against formulas. Adapters change operations, and none of theirs is checked.
fn diagnose(model: &Model, options: LoadOptions) -> Option<Arc<Diagnose>> {
    let gguf = model.gguf().clone();
    let diagnose = move |prompt: &[u32], written: &[u32]| {
        let found = answered(&gguf, &options, prompt, written).map_err(|error| error.to_string())?;
        let read = found.tokens.len().min(prompt.len());
        let report = serde_json::to_value(&found.classes).map_err(|error| error.to_string())?;
        Ok(Operations { failure: found.failure(), prompt: read, written: found.tokens.len() - read, report })
    };
    model.adapters().is_empty().then(|| Arc::new(diagnose) as Arc<Diagnose>)
}

/// Beginnings of prompts that are kept beside as many answers. States and windows take memory for each.
fn kept(model: &Model, answers: usize) -> usize {
    let plan = model.config().kv_plan(1, 1, KvFormat::F32, KvFormat::F32);
    let own = |layer: &LayerCache| layer.window.is_some() || layer.states.iter().any(|&state| state > 0);
    if plan.layers.iter().any(own) { answers } else { KEPT.max(2 * answers) }
}

/// The sequences that answers are written in.
fn batch(args: &ServedArgs) -> BatchOptions {
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
