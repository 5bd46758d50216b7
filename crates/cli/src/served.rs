//! The models that `candor serve` and `candor batch` answer with.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use candor::{Adapter, BatchOptions, ChatTemplate, EmbedOptions, Engine, LoadOptions, Model, Pooling, SessionOptions};
use candor_inspect::verify::{answered, processor};
use candor_ops::{KvFormat, LayerCache};
use candor_server::{Ability, Config, Diagnose, Listed, Loaded, News, Operations, Ready, Work};

use crate::{
    answer,
    args::{Line, OutputArgs, PerformanceArgs, ServedArgs},
    errors::Error,
    library,
    open::Source,
    output::say,
    template, text,
};

/// Rows of prompts in a step beside answers that are being written.
const PROMPT_ROWS: usize = 64;

/// Beginnings of prompts that are kept beside answers, at least, where each costs nothing but its pages.
const KEPT: usize = 32;

/// How to answer, and how models are loaded.
pub struct Served {
    pub config: Config,
    how: How,
    adapters: Vec<Adapter>,
}

/// How models are loaded.
#[derive(Clone)]
struct How {
    performance: PerformanceArgs,
    output: OutputArgs,
    session: SessionOptions,
    template: Option<Arc<ChatTemplate>>,
    /// How vectors are made, where a model is to make some.
    vectors: EmbedOptions,
    makes_vectors: bool,
    batch: BatchOptions,
    caches: bool,
}

impl Served {
    /// What the arguments say.
    ///
    /// # Errors
    /// If they contradict each other, or a file that they name cannot be read.
    pub fn of(args: &ServedArgs, line: &Line) -> Result<Served, Error> {
        let sampling = args.sampling.sampling(|text| text::escaped(text, false))?;
        sampling.validate().map_err(candor::Error::from)?;
        let template =
            template::named_or_read(line, args.chat_template.as_deref(), args.chat_template_file.as_deref())?;
        let mut config = Config::default();
        (config.sampling, config.max_tokens) = (sampling, usize::try_from(args.predict).ok());
        config.verbose = args.output.verbose;
        config.cache_prompt = !args.no_cache_prompt;
        config.template_variables = args.chat_template_kwargs.clone().unwrap_or_default().0;
        config.news = Some(hear);
        let mut vectors = args.vectors.options(&args.performance);
        if line.exclusive(&["pooling", "reranking"])? == Some("reranking") && args.reranking {
            vectors = vectors.pooling(Pooling::Rank);
        }
        let makes_vectors = args.embedding || vectors.pooling.is_some();
        let session = match makes_vectors {
            true => SessionOptions::default().batch(vectors.rows).ubatch(vectors.rows).context(vectors.rows).fit(false),
            false => answer::conversation(&args.context, &args.performance),
        };
        let how = How {
            performance: args.performance.clone(),
            output: args.output.clone(),
            session,
            template: template.map(Arc::new),
            vectors,
            makes_vectors,
            batch: batch(args),
            caches: !args.no_cache_prompt,
        };
        Ok(Served { config, how, adapters: args.lora.open()? })
    }

    /// The one model that the arguments name.
    ///
    /// # Errors
    /// If they name two.
    pub fn one(&self, args: &ServedArgs, line: &Line) -> Result<Listed<Error>, Error> {
        let source = Source::of(line, &args.model)?.overridden(&args.overrides, line)?;
        let name = args.alias.clone().or_else(|| source.short_name()).unwrap_or_else(|| "built-in".to_owned());
        Ok(self.how.listed(name, source, &self.adapters))
    }

    /// The models of a folder.
    ///
    /// # Errors
    /// If it has none, or a flag is given that is for one model alone.
    pub fn several(&self, folder: &Path, args: &ServedArgs, line: &Line) -> Result<Vec<Listed<Error>>, Error> {
        for flag in ["alias", "lora", "lora_scaled"] {
            line.exclusive(&[flag, "models_dir"])?;
        }
        let listed = |(name, path): (String, PathBuf)| {
            Ok(self.how.listed(name, Source::file(path).overridden(&args.overrides, line)?, &[]))
        };
        library::models(folder)?.into_iter().map(listed).collect()
    }
}

impl How {
    fn listed(&self, name: String, source: Source, adapters: &[Adapter]) -> Listed<Error> {
        let (path, how, adapters) = (source.path().map(Path::to_owned), self.clone(), adapters.to_vec());
        Listed { name, path, load: Box::new(move || how.load(source.clone(), adapters.clone())) }
    }

    fn load(&self, source: Source, adapters: Vec<Adapter>) -> Result<Loaded, Error> {
        let How { performance, session, .. } = self;
        let opened = source.open(performance, adapters, *session, &self.output)?;
        let model = opened.model;
        // GPUs were verified before the model was loaded on one.
        if !performance.no_verify {
            let found = processor(model.gguf(), &performance.load()?.session(*session))?;
            if let Some(failure) = found.failure() {
                say!("this machine computes the model wrongly, and nothing is answered: {failure}");
                return Ok(Loaded::Wrong(failure));
            }
        }
        let diagnose = diagnose(&model, performance.load()?.session(*session));
        let work = if self.makes_vectors || model.is_encoder() || Pooling::said(&model)?.is_some() {
            Work::Vectors(model.embedder(&self.vectors)?)
        } else {
            model.refuse_answers("candor serve")?;
            let kept = if self.caches { kept(&model, self.batch.sequences) } else { 0 };
            Work::Answers(Engine::new(model.batch(&self.batch.kept(kept))?, PROMPT_ROWS))
        };
        Ok(Loaded::Ready(Box::new(Ready { work, template: self.template.clone(), diagnose })))
    }
}

/// Says that a model came or went, or that the server ends.
fn hear(news: &News) {
    match news {
        News::Ready { name, does, context } => match does {
            Ability::Answers(most) => say!("ready: {name}, {most} answers at once, a context of {context} tokens each"),
            Ability::Vectors(width) => {
                say!("ready: {name}, vectors of {width} numbers, of texts of up to {context} tokens");
            }
            Ability::Scores => say!("ready: {name}, scores of pairs of up to {context} tokens"),
        },
        News::Ending => say!("ending: requests that came are answered, no others are taken"),
        News::Unloaded { name } => say!("unloaded: {name}"),
        News::Failed { name, why } => say!("failed: {name}: {why}"),
        _ => {}
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
