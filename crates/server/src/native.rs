//! llama.cpp's own endpoints.

use std::sync::Arc;

use axum::{Json, body::Bytes};
use candor::{AnswerStart, Encode, Finish, GenerateOptions, Piece, Show, StreamDecoder};
use serde_json::{Map, Value, json};

use crate::{
    answer::Form,
    app::{App, Served, blocking},
    ask::{self, Asked},
    chat, completions,
    fields::{Fields, expected},
    head::FINGERPRINT,
    likely::{self, Likely, Watch},
    record::{self, Record, Shared, Wanted},
    refusal::Refusal,
    registry::Held,
    shape::Shape,
};

/// `/completion` and `/completions`: continues a text.
///
/// # Errors
/// If the request is refused.
pub fn read(app: &App, served: &Served, mut fields: Fields) -> Result<Asked<Completion>, Refusal> {
    let prompts = completions::prompts(&served.model, fields.take("prompt"))?;
    answer(app, served, fields, prompts)
}

/// Continues prompts as the other fields of a request say.
///
/// # Errors
/// If one of them is refused.
pub fn answer(
    app: &App,
    served: &Served,
    mut fields: Fields,
    prompts: Vec<Vec<u32>>,
) -> Result<Asked<Completion>, Refusal> {
    fields.rename("n_cmpl", "n");
    let count = ask::count(&mut fields)?;
    let options = ask::options(&mut fields, &app.config, &served.model, &["max_tokens", "n_predict"])?;
    let streamed = fields.flag("stream")?.unwrap_or_default();
    let top = likely::count(&mut fields, "n_probs")?.filter(|&top| top > 0);
    let sampled = fields.flag("post_sampling_probs")?.unwrap_or_default();
    let with_tokens = fields.flag("return_tokens")?.unwrap_or_default();
    let wanted = Wanted::of(&mut fields, &app.config)?;
    let kept = fields.texts("response_fields")?;
    let shape = Shape::of(&mut fields)?;
    fields.finish(&ask::WITHOUT_EFFECT)?;
    let mut shared = Shared::new(&served.name, wanted, &options, served.model.tokenizer());
    shared.set("stream", streamed);
    shared.set("n_probs", top.unwrap_or_default());
    shared.set("post_sampling_probs", sampled);
    shared.set("timings_per_token", wanted.timings);
    let asked = ask::each(prompts, &options, count);
    let (prompts, watches) = match top {
        Some(top) if sampled => {
            let watch = |(prompt, options): (Vec<u32>, _)| {
                let (watch, options) = Watch::over_sampled(options, &prompt, &served.model, served.context, top)?;
                Ok(((prompt, options), Some(watch)))
            };
            asked.into_iter().map(watch).collect::<Result<_, Refusal>>()?
        }
        _ => ask::watched(asked, top, &served.model),
    };
    let prompts = shape.bind(prompts, &served.model, &served.tokens, AnswerStart::Content)?;
    let form = Completion { records: record::each(shared, &prompts, watches), with_tokens, kept };
    Ok(Asked { prompts, form, streamed })
}

/// The answers so far.
pub struct Completion {
    records: Vec<Record>,
    with_tokens: bool,
    /// The fields of an answer that are wanted; all where there are none.
    kept: Vec<String>,
}

impl Completion {
    fn ended(&self, index: usize, streamed: bool) -> Option<Value> {
        let whole = self.records[index].whole(index, streamed, self.with_tokens)?;
        if self.kept.is_empty() {
            return Some(whole);
        }
        let field = |path: &String| Some((path.clone(), whole.pointer(&format!("/{path}"))?.clone()));
        Some(self.kept.iter().filter_map(field).collect::<Map<String, Value>>().into())
    }

    fn progress(&self, index: usize, progress: Option<Value>) -> Option<Value> {
        let record = &self.records[index];
        let mut chunk = record.chunk(index, "", None);
        record.note(&mut chunk, Some(progress?));
        Some(chunk)
    }
}

impl Form for Completion {
    const LAST: Option<&'static str> = None;

    fn begin(&mut self) -> Vec<Value> {
        Vec::new()
    }

    fn begun(&mut self, index: usize, reused: usize) -> Vec<Value> {
        let progress = self.records[index].begun(reused);
        self.progress(index, progress).into_iter().collect()
    }

    fn read(&mut self, index: usize, done: usize) -> Vec<Value> {
        let progress = self.records[index].read(done);
        self.progress(index, progress).into_iter().collect()
    }

    fn piece(&mut self, index: usize, piece: &Piece) -> Vec<Value> {
        let record = &mut self.records[index];
        let likely = record.piece(piece).map(Likely::json);
        if piece.token.is_none() && piece.text.is_empty() {
            return Vec::new();
        }
        let mut chunk = record.chunk(index, &piece.text, piece.token);
        if let Some(likely) = likely {
            chunk["completion_probabilities"] = vec![likely].into();
        }
        record.note(&mut chunk, None);
        vec![chunk]
    }

    fn end(&mut self, index: usize, finish: &Finish) -> Vec<Value> {
        self.records[index].end(finish);
        self.ended(index, true).into_iter().collect()
    }

    fn done(&mut self) -> Vec<Value> {
        Vec::new()
    }

    fn whole(self) -> Value {
        let mut all: Vec<Value> = (0..self.records.len()).filter_map(|index| self.ended(index, false)).collect();
        if self.records.len() > 1 { all.into() } else { all.pop().unwrap_or_default() }
    }
}

/// `/tokenize`: the tokens of a text.
///
/// # Errors
/// If the request is refused.
pub async fn tokenize(served: Arc<Held>, body: Bytes) -> Result<Json<Value>, Refusal> {
    blocking(move || {
        let mut fields = Fields::of(&body)?;
        // vLLM's names.
        fields.rename("prompt", "content");
        fields.rename("add_special_tokens", "add_special");
        let content = fields.take("content").ok_or_else(|| Refusal::field("content", "missing"))?;
        let bos = fields.flag("add_special")?.unwrap_or(false);
        let specials = fields.flag("parse_special")?.unwrap_or(true);
        let with_pieces = fields.flag("with_pieces")?.unwrap_or(false);
        fields.finish(&ask::WITHOUT_EFFECT)?;
        let tokenizer = served.model.tokenizer();
        let mut how = Encode::text();
        (how.bos, how.specials) = (bos, specials);
        let piece = |id: u32| {
            let bytes = tokenizer.piece(id, Show::Specials);
            match str::from_utf8(&bytes) {
                Ok(text) => json!({ "id": id, "piece": text }),
                Err(_) => json!({ "id": id, "piece": bytes.as_ref() }),
            }
        };
        let ids = completions::mixed(tokenizer, &content, how)
            .ok_or_else(|| expected("content", "a string, or an array of strings and tokens", &content))?;
        let tokens: Vec<Value> = ids.into_iter().map(|id| if with_pieces { piece(id) } else { id.into() }).collect();
        Ok(Json(json!({ "tokens": tokens })))
    })
    .await
}

/// `/detokenize`: the text of tokens.
///
/// # Errors
/// If the request is refused.
pub fn detokenize(served: &Served, body: &[u8]) -> Result<Json<Value>, Refusal> {
    let mut fields = Fields::of(body)?;
    let tokens = fields.list("tokens")?.ok_or_else(|| Refusal::field("tokens", "missing"))?;
    fields.finish(&ask::WITHOUT_EFFECT)?;
    let tokenizer = served.model.tokenizer();
    let mut decoder = StreamDecoder::continuing(tokenizer.clone()).show(Show::Specials);
    let mut text = String::new();
    for token in &tokens {
        let id = token.as_u64().and_then(|id| u32::try_from(id).ok()).filter(|&id| tokenizer.token(id).is_some());
        let id = id.ok_or_else(|| expected("tokens", "numbers of the vocabulary", token))?;
        text.push_str(&decoder.push(id));
    }
    text.push_str(&decoder.finish());
    Ok(Json(json!({ "content": text, "prompt": text })))
}

/// `/tokenizer_info`: vLLM's, of which `lm-eval` asks what texts begin and end with.
pub fn tokenizer_info(served: &Served) -> Value {
    let tokenizer = served.model.tokenizer();
    let text = |id: Option<u32>| id.and_then(|id| tokenizer.token(id));
    json!({
        "bos_token": text(tokenizer.bos()),
        "eos_token": text(tokenizer.eos()),
        "add_bos_token": tokenizer.add_bos(),
        "model_max_length": served.context,
        "chat_template": served.template.as_ref().map(|template| template.source()),
    })
}

/// `/apply-template`: a conversation as the model sees it.
///
/// # Errors
/// If the request is refused.
pub async fn apply_template(app: Arc<App>, served: Arc<Held>, body: Bytes) -> Result<Json<Value>, Refusal> {
    blocking(move || {
        let mut fields = Fields::of(&body)?;
        let conversation = chat::conversation(&mut fields, &app, &served)?;
        fields.finish(&ask::WITHOUT_EFFECT)?;
        let (text, _) = served.template()?.render(&served.model, conversation)?;
        Ok(Json(json!({ "prompt": text })))
    })
    .await
}

/// `/props`: the model, and how it is served.
pub fn props(app: &App, served: &Served) -> Value {
    let tokenizer = served.model.tokenizer();
    let text = |id: Option<u32>| id.and_then(|id| tokenizer.token(id)).unwrap_or_default().to_owned();
    let options = GenerateOptions::default().sampling(app.config.sampling.clone()).max_tokens(app.config.max_tokens);
    let settings = record::settings(&options, tokenizer);
    json!({
        "default_generation_settings": { "n_ctx": served.context, "params": settings },
        "total_slots": served.sequences,
        "model_alias": served.name,
        "model_path": served.path,
        "chat_template": served.template.as_ref().map(|template| template.source()),
        "bos_token": text(tokenizer.bos()),
        "eos_token": text(tokenizer.eos()),
        "device": served.model.device_label(),
        "exact": served.model.is_batch_invariant(),
        "is_sleeping": false,
        "build_info": FINGERPRINT,
    })
}
