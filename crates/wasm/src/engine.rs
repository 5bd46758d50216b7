//! A loaded model with one session, as JavaScript sees it.

use std::{ops::Range, sync::Arc};

use candor::{
    Cancel, EmbedOptions, Embedder, Encode, GenerateOptions, Gguf, Message, Model, Piece, Pooling, Session, StopReason,
};
use js_sys::{Date, Function, Promise};
use serde_json::{Value, json};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;

use crate::{
    ask::{Generate, Load},
    source::{JsSource, Read, Source},
    stop::Stop,
};

/// Tokens of a prompt that are computed without looking up: these at first, and from then on as many as take up to [`LOOK`].
const FIRST: usize = 16;
const MOST: usize = 256;
/// Milliseconds.
const LOOK: f64 = 100.0;

/// A model and the session that its texts are in.
#[wasm_bindgen]
pub struct Engine {
    model: Model,
    source: Arc<Source>,
    load: Load,
    /// Made with the first prompt.
    session: Option<Session>,
    /// Made with the first vector, and how it pools.
    embedder: Option<(String, Embedder)>,
}

#[wasm_bindgen]
impl Engine {
    /// Loads a file. On a GPU this verifies it first.
    ///
    /// # Errors
    /// If the file cannot be read, its model cannot be run, or a GPU that was asked for is not there or computes wrongly.
    pub async fn load(source: JsSource, options: String) -> Result<Engine, JsValue> {
        let load: Load = serde_json::from_str(&options).map_err(JsError::from)?;
        let source = Arc::new(Source::new(source));
        let gguf = Gguf::from_source(source.clone()).map_err(unreadable)?;
        let options = load.options().await.map_err(JsError::from)?;
        let model = Model::from_gguf_async(gguf, &options).await.map_err(JsError::from)?;
        Ok(Engine { model, source, load, session: None, embedder: None })
    }

    /// What there is to say of the model, as JSON.
    pub fn info(&self) -> String {
        let (model, config) = (&self.model, self.model.config());
        let text = |key| model.gguf().metadata().str(key).ok().flatten();
        let label = model.device_label();
        let trust = model.trust();
        let wrong = trust.verdicts.iter().find_map(|verdict| {
            let failure = verdict.failure.as_ref()?;
            Some(format!("{} computes wrongly: {failure}", verdict.device.description))
        });
        let unverified = trust.unverified.as_ref().map(|why| format!("the GPU could not be verified: {why}"));
        let right = trust.verdicts.iter().any(|verdict| verdict.failure.is_none());
        json!({
            "label": label,
            "device": if label.starts_with("gpu") { "gpu" } else { "cpu" },
            "verified": right,
            "reason": wrong.or(unverified).or_else(|| model.placement().map(str::to_owned)),
            "architecture": text("general.architecture"),
            "name": text("general.name"),
            "context": self.load.session(model).context,
            "trainedContext": config.context,
            "vocabulary": config.vocab,
            "width": config.dim,
            "layers": config.layers,
            "embeddingsOnly": model.is_encoder(),
            "chatTemplate": matches!(model.chat_template(), Ok(Some(_))),
        })
        .to_string()
    }

    /// What it takes now, as JSON: bytes of the module's memory, which grows and never shrinks, and of buffers on GPUs.
    pub fn memory(&self) -> String {
        #[cfg(feature = "gpu")]
        let gpu = candor_gpu::held().bytes;
        #[cfg(not(feature = "gpu"))]
        let gpu = 0;
        json!({ "module": core::arch::wasm32::memory_size::<0>() << 16, "gpu": gpu }).to_string()
    }

    /// The ids of a text; of a `prompt` with the tokens that the file puts around one, and special tokens recognised.
    pub fn tokenize(&self, text: &str, prompt: bool) -> Vec<u32> {
        let how = if prompt { Encode::prompt() } else { Encode::text() };
        self.model.tokenizer().encode(text, how)
    }

    /// The text of ids.
    pub fn detokenize(&self, tokens: &[u32]) -> String {
        self.model.tokenizer().decode(tokens)
    }

    /// The ids of a conversation, a JSON list of messages.
    ///
    /// # Errors
    /// If the text is no such list, or the file has no chat template that takes it.
    pub fn conversation(&self, messages: &str) -> Result<Vec<u32>, JsError> {
        let messages: Vec<Message> = serde_json::from_str(messages)?;
        Ok(self.model.encode_chat(&messages)?)
    }

    /// The vector of a text, given by its ids. `pooling` is `mean`, `cls`, `last`, or empty for what the file says.
    ///
    /// # Errors
    /// If the file doesn't say, or the text is empty or too long.
    pub async fn embed(&mut self, tokens: Vec<u32>, pooling: String) -> Result<Vec<f32>, JsError> {
        let mut embedder = match self.embedder.take() {
            Some((by, embedder)) if by == pooling => embedder,
            _ => self.model.embedder(&EmbedOptions::default().pooling(pooling_of(&pooling)?))?,
        };
        let vectors = embedder.embed_async(&[tokens], |_| ()).await;
        self.embedder = Some((pooling, embedder));
        Ok(vectors?.concat())
    }

    /// Continues a prompt. `turn` is called with each piece, `{ text, token }`, and with `{ done, total }` while the prompt is
    /// read, and awaited: what stops the work arrives meanwhile. Gives how it ended, as JSON.
    ///
    /// # Errors
    /// If the prompt is empty or too long, an option makes no sense, or the device fails.
    pub async fn generate(
        &mut self,
        prompt: Vec<u32>,
        options: String,
        stop: &Stop,
        turn: Function,
    ) -> Result<String, JsError> {
        let options = serde_json::from_str::<Generate>(&options)?.options()?.cancel(stop.cancel.clone());
        let mut session = match self.session.take() {
            Some(session) => session,
            None => self.model.session(&self.load.session(&self.model))?,
        };
        // Layers that pass are read for each chunk: then it is as large as it may be.
        let chunks = if self.load.is_limited() { MOST..MOST } else { FIRST..MOST };
        let before = self.source.read();
        let done = generate(&mut session, &prompt, options, chunks, (&stop.cancel, &turn)).await;
        self.session = Some(session);
        let Read { bytes, waited } = self.source.read();
        let mut done = done?;
        done["readBytes"] = (bytes - before.bytes).into();
        done["waitMs"] = (waited - before.waited).into();
        Ok(done.to_string())
    }
}

fn pooling_of(name: &str) -> Result<Option<Pooling>, JsError> {
    Ok(match name {
        "" => None,
        "mean" => Some(Pooling::Mean),
        "cls" => Some(Pooling::Cls),
        "last" => Some(Pooling::Last),
        _ => return Err(JsError::new(&format!("pooling {name}: expected one of mean, cls, last"))),
    })
}

/// An error of the file itself, which the page tells from others by its name.
fn unreadable(error: candor::error::GgufError) -> JsValue {
    let error = js_sys::Error::new(&error.to_string());
    error.set_name("GgufError");
    error.into()
}

/// What [`Engine::generate`] does.
async fn generate(
    session: &mut Session,
    prompt: &[u32],
    options: GenerateOptions,
    chunks: Range<usize>,
    (cancel, turn): (&Cancel, &Function),
) -> Result<Value, JsError> {
    let begun = Date::now();
    let fresh = read(session, prompt, chunks, cancel, turn).await?;
    let mut generation = session.generate_async(prompt, options).await?;
    let prompt_tokens = fresh + generation.timings().prompt_tokens;
    let read = Date::now();
    while let Some(Piece { token, text }) = generation.next_async().await? {
        turn_over(turn, &piece(token, &text)?).await?;
    }
    let reason = match generation.stop_reason() {
        Some(StopReason::EndOfText) => "end",
        Some(StopReason::MaxTokens) => "maxTokens",
        Some(StopReason::StopText) => "stop",
        Some(StopReason::ContextFull) => "contextFull",
        Some(StopReason::Cancelled) | None => "aborted",
    };
    Ok(json!({
        "reason": reason,
        "seed": generation.seed(),
        "promptTokens": prompt_tokens,
        "promptMs": read - begun,
        "tokens": generation.timings().tokens,
        "decodeMs": Date::now() - read,
    }))
}

/// Reads all of a prompt but its last token, which generation does, and looks up in between. How many tokens were computed.
async fn read(
    session: &mut Session,
    prompt: &[u32],
    chunks: Range<usize>,
    cancel: &Cancel,
    turn: &Function,
) -> Result<usize, JsError> {
    // An encoder reads a text at once, and what does not fit is the generation's to say.
    if session.model().is_encoder_decoder() || prompt.len() > session.context() || prompt.is_empty() {
        return Ok(0);
    }
    let common = session.tokens().iter().zip(prompt).take_while(|(a, b)| a == b).count();
    let (mut at, last) = (common.min(prompt.len() - 1), prompt.len() - 1);
    let first = at;
    if at < last {
        session.truncate(at);
    }
    let mut size = chunks.start;
    while at < last && !cancel.is_cancelled() {
        let begun = Date::now();
        let chunk = &prompt[at..last.min(at + size)];
        session.evaluate_until_async(chunk, cancel).await?;
        at += chunk.len();
        let took = Date::now() - begun;
        if took < LOOK / 3.0 {
            size = (2 * size).min(chunks.end);
        } else if took > LOOK {
            size = (size / 2).max(chunks.start);
        }
        turn_over(turn, &progress(at, prompt.len())?).await?;
    }
    Ok(at - first)
}

fn piece(token: Option<u32>, text: &str) -> Result<JsValue, JsError> {
    object(&[("text", text.into()), ("token", token.map_or(JsValue::NULL, JsValue::from))])
}

fn progress(done: usize, total: usize) -> Result<JsValue, JsError> {
    object(&[("done", (done as f64).into()), ("total", (total as f64).into())])
}

fn object(fields: &[(&str, JsValue)]) -> Result<JsValue, JsError> {
    let object = js_sys::Object::new();
    for (name, value) in fields {
        js_sys::Reflect::set(&object, &(*name).into(), value).map_err(|_| JsError::new("an object takes no field"))?;
    }
    Ok(object.into())
}

/// Shows the worker where the work is, and lets it look at its messages.
async fn turn_over(turn: &Function, at: &JsValue) -> Result<(), JsError> {
    let failed = |_| JsError::new("the worker has gone");
    let promise: Promise = turn.call1(&JsValue::UNDEFINED, at).map_err(failed)?.unchecked_into();
    JsFuture::from(promise).await.map(drop).map_err(failed)
}
