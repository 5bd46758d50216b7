//! What a model takes and what holds it, before it is loaded: of its file only the directory is read.

use candor::{
    Config, Error, Fit as Longest, SessionOptions,
    fit::{Shortage, Takes},
};
use serde_json::json;
use wasm_bindgen::prelude::*;

use crate::{
    ask::{Fit, session},
    source::{JsSource, Source, opened},
};

/// Contexts of GPUs are a multiple of this.
const GRAIN: usize = 256;

/// Says of a file's model what it takes and where it fits, as JSON.
///
/// # Errors
/// If the file cannot be read, or its model cannot be run.
#[wasm_bindgen]
pub fn fit(source: JsSource, options: &str) -> Result<String, JsValue> {
    let asked: Fit = serde_json::from_str(options).map_err(JsError::from)?;
    let gguf = opened(Source::new(source), 0)?;
    let config = Config::from_gguf(&gguf).map_err(|error| JsError::from(Error::from(error)))?;
    let session = session(asked.context, &config);
    let takes = Takes::of(&gguf, &session).map_err(JsError::from)?;
    let of = |session: &SessionOptions| match Longest::of(&gguf, session) {
        Ok(fit) => Ok(Ok(fit.context)),
        Err(Error::Memory(shortage)) => Ok(Err(*shortage)),
        Err(error) => Err(JsError::from(error)),
    };
    let this = of(&session)?;
    let longest = of(&session.context(0))?.unwrap_or_else(|shortage| shortage.longest);
    let longest = longest.max(if this.is_ok() { session.context } else { 0 });
    let on_gpu = asked.gpu.map(|limit| (limit, longest_on_gpu(&config, &session, limit)));
    Ok(json!({
        "bytes": gguf.file_bytes(),
        "weights": takes.weights,
        "cache": takes.cache,
        "buffers": takes.buffers,
        "context": session.context,
        "trainedContext": config.context,
        "cpu": { "fits": this.is_ok(), "longestContext": longest },
        "gpu": on_gpu.map(|(buffer, longest)| {
            json!({ "fits": longest >= session.context, "longestContext": longest, "largestBuffer": buffer })
        }),
        "reason": reason(&takes, &session, this.err(), longest, on_gpu),
    })
    .to_string())
}

/// The longest context whose keys and values of each layer lie in buffers of `limit` bytes.
fn longest_on_gpu(config: &Config, session: &SessionOptions, limit: u64) -> usize {
    let holds = |context: usize| {
        let mut plan = config.kv_plan(context, 1, session.keys, session.values);
        plan.step = session.ubatch.min(context);
        // Halves take two bytes each.
        plan.layers.iter().enumerate().all(|(index, layer)| {
            let side = 2 * layer.key_dim.max(layer.value_dim) as u64;
            (layer.kv_heads as u64 * side).saturating_mul(plan.kept(index) as u64) <= limit
        })
    };
    let own = config.context.min(config.limit.unwrap_or(usize::MAX));
    if holds(own) {
        return own;
    }
    let (mut held, mut too_long) = (0, own.div_ceil(GRAIN));
    while too_long - held > 1 {
        let middle = held + (too_long - held) / 2;
        *(if holds(middle * GRAIN) { &mut held } else { &mut too_long }) = middle;
    }
    held * GRAIN
}

/// All of it as one sentence.
fn reason(
    takes: &Takes,
    session: &SessionOptions,
    short: Option<Shortage>,
    longest: usize,
    gpu: Option<(u64, usize)>,
) -> String {
    let cpu = match short {
        Some(shortage) => format!("on the processor {shortage}, so that the longest context is {longest} tokens"),
        None => format!(
            "a context of {} tokens takes {takes}, which the processor's memory holds with up to {longest} tokens",
            session.context
        ),
    };
    match gpu {
        Some((_, most)) => format!("{cpu}; the GPU's buffers hold up to {most} tokens, its memory is not known"),
        None => cpu,
    }
}
