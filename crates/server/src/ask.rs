//! What the endpoints that generate have in common: how to go on, how many answers, what a request may say besides.

use candor::{GenerateOptions, Model, Reuse, StopReason};
use serde_json::Value;

use crate::{
    config::Config,
    fields::{Fields, expected},
    guard::Scope,
    likely::Watch,
    refusal::Refusal,
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
pub type Asked = Vec<(Vec<u32>, GenerateOptions)>;

/// Most answers to one prompt.
const MOST_ANSWERS: i64 = 64;

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

/// Which prompts those of a request share memory with: others of the same key, unless it says that it reads its own.
pub fn reuse(fields: &mut Fields, config: &Config, scope: Scope) -> Result<Reuse, Refusal> {
    let shares = fields.flag("cache_prompt")?.unwrap_or(config.cache_prompt);
    Ok(if shares { Reuse::Within(scope.0) } else { Reuse::Off })
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
pub fn each(prompts: Vec<Vec<u32>>, options: &GenerateOptions, count: usize) -> Asked {
    let one = |prompt: &Vec<u32>, n: usize| {
        let mut options = options.clone();
        options.sampling.seed = options.sampling.seed.map(|seed| seed.wrapping_add(n as u32));
        (prompt.clone(), options)
    };
    prompts.iter().flat_map(|prompt| (0..count).map(move |n| one(prompt, n))).collect()
}

/// Has the likeliest tokens noted of each answer, where a request wants `top` of them.
pub fn watched(asked: Asked, top: Option<usize>, model: &Model) -> (Asked, Vec<Option<Watch>>) {
    let watch = |(prompt, options)| match top {
        None => ((prompt, options), None),
        Some(top) => {
            let (watch, options) = Watch::over(options, model.tokenizer().clone(), top);
            ((prompt, options), Some(watch))
        }
    };
    asked.into_iter().map(watch).unzip()
}

/// OpenAI's name for an end.
pub fn reason(reason: StopReason) -> &'static str {
    match reason {
        StopReason::EndOfText | StopReason::StopText => "stop",
        StopReason::MaxTokens | StopReason::ContextFull => "length",
        StopReason::Cancelled => "cancelled",
    }
}
