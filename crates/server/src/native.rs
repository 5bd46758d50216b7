//! llama.cpp's own endpoints.

use std::sync::Arc;

use axum::{Json, body::Bytes, response::Response};
use candor::{AnswerStart, Encode, Finish, GenerateOptions, Piece, Show, StopReason, StreamDecoder};
use serde_json::{Value, json};

use crate::{
    answer::Form,
    app::{App, blocking},
    ask, chat, completions,
    fields::{Fields, expected},
    likely::{self, Watch},
    refusal::Refusal,
    shape::Shape,
};

/// `/completion`: continues a text.
///
/// # Errors
/// If the request is refused.
pub async fn completion(app: Arc<App>, body: Bytes) -> Result<Response, Refusal> {
    let shared = app.clone();
    let Asked { prompts, form, streamed } = blocking(move || read(&shared, &body)).await?;
    app.answer(prompts).await?.respond(form, streamed).await
}

/// A request that was understood.
struct Asked {
    prompts: Vec<(Vec<u32>, GenerateOptions)>,
    form: Completion,
    streamed: bool,
}

fn read(app: &App, body: &[u8]) -> Result<Asked, Refusal> {
    let served = app.served()?;
    let mut fields = Fields::of(body)?;
    let prompts = completions::prompts(&served.model, fields.take("prompt"))?;
    let options = ask::options(&mut fields, &app.config, &["max_tokens", "n_predict"])?;
    let streamed = fields.flag("stream")?.unwrap_or_default();
    let top = likely::count(&mut fields, "n_probs")?.filter(|&top| top > 0);
    let off = |value: &Value| *value == false;
    fields.refuse("post_sampling_probs", off, "probabilities are those before sampling")?;
    fields.refuse("return_progress", off, "progress is not served")?;
    fields.refuse("return_tokens", off, "tokens are not served")?;
    let shape = Shape::of(&mut fields)?;
    fields.finish(&ask::WITHOUT_EFFECT)?;
    let several = prompts.len() > 1;
    let (prompts, watches) = ask::watched(ask::each(prompts, &options, 1), top, &served.model);
    let prompts = shape.bind(prompts, &served.model, &served.tokens, AnswerStart::Content)?;
    let texts = watches.into_iter().map(|watch| Text { watch, ..Text::default() }).collect();
    let form = Completion { model: served.name.clone(), texts, several };
    Ok(Asked { prompts, form, streamed })
}

/// The answers so far.
struct Completion {
    model: String,
    texts: Vec<Text>,
    several: bool,
}

/// An answer so far.
#[derive(Default)]
struct Text {
    watch: Option<Watch>,
    content: String,
    likely: Vec<Value>,
    end: Option<Finish>,
}

impl Completion {
    fn ended(&self, index: usize, content: &str, likely: &[Value], finish: &Finish) -> Value {
        let stop_type = match finish.reason {
            StopReason::EndOfText => "eos",
            StopReason::StopText => "word",
            StopReason::MaxTokens | StopReason::ContextFull => "limit",
            StopReason::Cancelled => "none",
        };
        let mut ended = json!({
            "index": index,
            "content": content,
            "stop": true,
            "stop_type": stop_type,
            "model": self.model,
            "seed": finish.seed,
            "tokens_evaluated": finish.prompt,
            "tokens_predicted": finish.tokens,
            "truncated": false,
        });
        if !likely.is_empty() {
            ended["completion_probabilities"] = likely.into();
        }
        ended
    }
}

impl Form for Completion {
    const LAST: Option<&'static str> = None;

    fn begin(&mut self) -> Vec<Value> {
        Vec::new()
    }

    fn piece(&mut self, index: usize, piece: &Piece) -> Vec<Value> {
        let Text { watch, content, likely, .. } = &mut self.texts[index];
        content.push_str(&piece.text);
        let token = watch.as_mut().zip(piece.token).and_then(|(watch, id)| watch.token(id));
        let mut sent = json!({ "index": index, "content": piece.text, "stop": false });
        match token {
            Some(token) => {
                let token = token.json();
                sent["completion_probabilities"] = json!([token]);
                likely.push(token);
            }
            None if piece.text.is_empty() => return Vec::new(),
            None => {}
        }
        vec![sent]
    }

    fn end(&mut self, index: usize, finish: &Finish) -> Vec<Value> {
        self.texts[index].end = Some(*finish);
        vec![self.ended(index, "", &[], finish)]
    }

    fn done(&mut self) -> Vec<Value> {
        Vec::new()
    }

    fn whole(self) -> Value {
        let ended =
            |(index, text): (usize, &Text)| Some(self.ended(index, &text.content, &text.likely, text.end.as_ref()?));
        let mut all: Vec<Value> = self.texts.iter().enumerate().filter_map(ended).collect();
        if self.several { all.into() } else { all.pop().unwrap_or_default() }
    }
}

/// `/tokenize`: the tokens of a text.
///
/// # Errors
/// If the request is refused.
pub async fn tokenize(app: Arc<App>, body: Bytes) -> Result<Json<Value>, Refusal> {
    blocking(move || {
        let served = app.served()?;
        let mut fields = Fields::of(&body)?;
        let text = fields.text("content")?.ok_or_else(|| Refusal::field("content", "missing"))?;
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
        let ids = tokenizer.encode(&text, how).into_iter();
        let tokens: Vec<Value> = ids.map(|id| if with_pieces { piece(id) } else { id.into() }).collect();
        Ok(Json(json!({ "tokens": tokens })))
    })
    .await
}

/// `/detokenize`: the text of tokens.
///
/// # Errors
/// If the request is refused.
pub async fn detokenize(app: Arc<App>, body: Bytes) -> Result<Json<Value>, Refusal> {
    let served = app.served()?;
    let mut fields = Fields::of(&body)?;
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
    Ok(Json(json!({ "content": text })))
}

/// `/apply-template`: a conversation as the model sees it.
///
/// # Errors
/// If the request is refused.
pub async fn apply_template(app: Arc<App>, body: Bytes) -> Result<Json<Value>, Refusal> {
    blocking(move || {
        let served = app.served()?;
        let mut fields = Fields::of(&body)?;
        let conversation = chat::conversation(&mut fields, &app, served)?;
        fields.finish(&ask::WITHOUT_EFFECT)?;
        let (text, _) = served.template()?.render(&served.model, conversation)?;
        Ok(Json(json!({ "prompt": text })))
    })
    .await
}

/// `/props`: the model, and how it is served.
///
/// # Errors
/// If the model is not loaded yet.
pub fn props(app: &App) -> Result<Json<Value>, Refusal> {
    let served = app.served()?;
    let tokenizer = served.model.tokenizer();
    let text = |id: Option<u32>| id.and_then(|id| tokenizer.token(id)).unwrap_or_default().to_owned();
    let settings = serde_json::to_value(&app.config.sampling).unwrap_or_default();
    Ok(Json(json!({
        "default_generation_settings": { "n_ctx": served.context, "params": settings },
        "total_slots": served.sequences,
        "model_alias": served.name,
        "chat_template": served.template.as_ref().map(|template| template.source()),
        "bos_token": text(tokenizer.bos()),
        "eos_token": text(tokenizer.eos()),
        "device": served.model.device_label(),
        "exact": served.model.is_batch_invariant(),
        "build_info": concat!("candor ", env!("CARGO_PKG_VERSION")),
    })))
}
