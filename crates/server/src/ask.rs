//! What the endpoints that generate have in common: how to go on, how many answers, what a request may say besides.

use std::sync::Arc;

use axum::{body::Bytes, response::Response};
use candor::{GenerateOptions, Model, Reuse};
use serde_json::{Value, json};

use crate::{
    answer::Form,
    app::{App, Served, blocking},
    config::Config,
    fields::{Fields, expected},
    guard::Scope,
    likely::Watch,
    lora,
    refusal::Refusal,
    registry::Held,
};

/// Fields of OpenAI's and llama.cpp's requests that change no answer here.
pub const WITHOUT_EFFECT: [&str; 12] = [
    "adaptive_decay",
    "backend_sampling",
    "id_slot",
    "metadata",
    "model",
    "n_cache_reuse",
    "n_keep",
    "prompt_cache_key",
    "prompt_cache_retention",
    "safety_identifier",
    "service_tier",
    "user",
];

/// The prompts of a request, each as often as it is to be answered, and how.
pub type Prompts = Vec<(Vec<u32>, GenerateOptions)>;

/// A request that was understood.
pub struct Asked<F> {
    /// What to answer.
    pub prompts: Prompts,
    /// What becomes of the answers.
    pub form: F,
    /// Whether they are sent as they are written.
    pub streamed: bool,
}

/// Understands a request.
pub type Read<F> = fn(&App, &Served, Fields) -> Result<Asked<F>, Refusal>;

/// Most answers to one prompt.
const MOST_ANSWERS: i64 = 64;

/// Answers a request that `read` understands, and that shares memory with others of its scope.
///
/// # Errors
/// If it is refused.
pub async fn answer<F: Form>(
    app: Arc<App>,
    held: Arc<Held>,
    scope: Scope,
    body: Bytes,
    read: Read<F>,
) -> Result<Response, Refusal> {
    let (shared, model) = (app.clone(), held.clone());
    let understand = move || {
        let served = model.answers()?;
        let mut fields = Fields::of(&body)?;
        let (reuse, scales) = memory(&mut fields, &shared.config, served, scope)?;
        Ok((read(&shared, served, fields)?, reuse, scales))
    };
    let (Asked { prompts, form, streamed }, reuse, scales) = blocking(understand).await?;
    app.answer(held, prompts, reuse, scales, scope.0).await?.respond(form, streamed).await
}

/// How to go on by a request's fields, `limits` of which say how many tokens there are at most.
pub fn options(
    fields: &mut Fields,
    config: &Config,
    model: &Model,
    limits: &[&str],
) -> Result<GenerateOptions, Refusal> {
    fields.rename("dynatemp_exponent", "dynatemp_exp");
    let off = |value: &Value| value.as_f64().is_some_and(|target| target < 0.0);
    fields.refuse("adaptive_target", off, "this sampler is not served, a number below 0 leaves it off")?;
    let sampling = fields.sampling(&config.sampling, model.tokenizer())?;
    let mut options = GenerateOptions::default().sampling(sampling).max_tokens(config.max_tokens);
    for limit in limits {
        match fields.whole(limit)? {
            None => {}
            Some(-1) => options.max_tokens = None,
            Some(most) => {
                let refuse = |_| expected(limit, "-1, or a number of tokens", &most.into());
                options.max_tokens = Some(usize::try_from(most).map_err(refuse)?);
            }
        }
    }
    let stop: Vec<String> = fields.texts("stop")?.into_iter().filter(|stop| !stop.is_empty()).collect();
    if !stop.is_empty() {
        options.stop = stop;
    }
    if let Some(ignores) = fields.flag("ignore_eos")? {
        options.ignore_eos = ignores;
    }
    Ok(options)
}

/// Which prompts those of a request share memory with, and by how much each adapter changes the model: others of the same key, unless it
/// says that it reads its own, and the server's scales, unless it has some.
///
/// # Errors
/// If it asks for what there is not.
pub fn memory(
    fields: &mut Fields,
    config: &Config,
    served: &Served,
    scope: Scope,
) -> Result<(Reuse, Vec<f32>), Refusal> {
    let shares = fields.flag("cache_prompt")?.unwrap_or(config.cache_prompt);
    let scales = match fields.take("lora") {
        Some(list) if list.as_array().is_none_or(|list| !list.is_empty()) => {
            lora::scales("lora", &list, &served.model)?
        }
        _ => served.scales(),
    };
    Ok((if shares { Reuse::Within(scope.0) } else { Reuse::Off }, scales))
}

/// How many answers to each prompt.
pub fn count(fields: &mut Fields) -> Result<usize, Refusal> {
    match fields.whole("n")? {
        None => Ok(1),
        Some(count @ 1..=MOST_ANSWERS) => Ok(count as usize),
        Some(other) => Err(Refusal::field("n", format!("expected 1 to {MOST_ANSWERS}, got {other}"))),
    }
}

/// Each prompt as often as it is to be answered. Where a seed is given, each further answer to a prompt has the next one.
pub fn each(prompts: Vec<Vec<u32>>, options: &GenerateOptions, count: usize) -> Prompts {
    let one = |prompt: &Vec<u32>, n: usize| {
        let mut options = options.clone();
        options.sampling.seed = options.sampling.seed.map(|seed| seed.wrapping_add(n as u32));
        (prompt.clone(), options)
    };
    prompts.iter().flat_map(|prompt| (0..count).map(move |n| one(prompt, n))).collect()
}

/// Has the likeliest tokens noted of each answer, where a request wants `top` of them.
pub fn watched(asked: Prompts, top: Option<usize>, model: &Model) -> (Prompts, Vec<Option<Watch>>) {
    let watch = |(prompt, options)| match top {
        None => ((prompt, options), None),
        Some(top) => {
            let (watch, options) = Watch::over(options, model.tokenizer().clone(), top);
            ((prompt, options), Some(watch))
        }
    };
    asked.into_iter().map(watch).unzip()
}

/// How many tokens a conversation has.
pub fn input_tokens(prompts: &Prompts) -> Value {
    let tokens = prompts.first().map_or(0, |(prompt, _)| prompt.len());
    json!({ "object": "response.input_tokens", "input_tokens": tokens })
}
