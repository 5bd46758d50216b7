//! A loaded model with one session, as JavaScript sees it.

use std::{
    ops::Range,
    sync::Arc,
    task::{Context, Poll},
};

use candor::{
    Adapter, Cancel, EmbedOptions, Embedder, Encode, GenerateOptions, Logits, Message, Model, Piece, Pooling, Role,
    Sampling, Session, StopReason,
};
use js_sys::{Date, Function, Promise};
use serde_json::{Value, json};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;

use crate::{
    ask::{Generate, Load, session},
    likely::likely,
    look::{FIRST, Look, MOST},
    source::{JsSource, Read, Source, opened},
    stop::Stop,
    trace::Trace,
};

/// Tokens to time at most, and milliseconds.
const TIMED: usize = 12;
const LONG: f64 = 500.0;

/// What a clock of JavaScript tells, in milliseconds.
fn now(clock: &Function) -> f64 {
    clock.call0(&JsValue::UNDEFINED).ok().and_then(|time| time.as_f64()).unwrap_or_else(Date::now)
}

/// Estimates the milliseconds of a token on the processor from one layer of a file.
///
/// # Errors
/// As [`candor::processor_token_ms`].
#[wasm_bindgen(js_name = processorTokenMs)]
pub async fn processor_token_ms(source: JsSource, options: String, clock: Function) -> Result<f64, JsValue> {
    let load: Load = serde_json::from_str(&options).map_err(JsError::from)?;
    let gguf = opened(Source::new(source), 0)?;
    let options = load.options().await.map_err(JsError::from)?;
    let found = candor::processor_token_ms(&gguf, &options, || now(&clock)).map_err(JsError::from)?;
    #[cfg(feature = "faults")]
    let found = found * load.slower.unwrap_or(1.0);
    Ok(found)
}

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
    /// Loads a file, and adapters that the options name in the same order. On a GPU this verifies it first.
    ///
    /// # Errors
    /// If a file cannot be read, its model cannot be run, an adapter is of another model, or a GPU that was asked for is not there
    /// or computes wrongly.
    pub async fn load(source: JsSource, adapters: Vec<JsSource>, options: String) -> Result<Engine, JsValue> {
        let load: Load = serde_json::from_str(&options).map_err(JsError::from)?;
        let source = Source::new(source);
        let gguf = opened(source.clone(), 0)?;
        let adapters = load.adapters.iter().zip(adapters).zip(1..).map(|((asked, source), number)| {
            let adapter =
                Adapter::from_gguf(&asked.name, opened(Source::new(source), number)?).map_err(JsError::from)?;
            Ok(adapter.scaled(asked.scale))
        });
        let adapters = adapters.collect::<Result<_, JsValue>>()?;
        let options = load.options().await.map_err(JsError::from)?.adapters(adapters);
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
            "context": session(self.load.context, config).context,
            "trainedContext": config.context,
            "vocabulary": config.vocab,
            "width": config.dim,
            "layers": config.layers,
            "embeddingsOnly": model.is_encoder(),
            "chatTemplate": matches!(model.chat_template(), Ok(Some(_))),
        })
        .to_string()
    }

    /// Milliseconds of a token by that clock: the shortest of some, until half a second is over. Leaves an empty session.
    ///
    /// # Errors
    /// If the device fails.
    #[wasm_bindgen(js_name = tokenMs)]
    pub async fn token_ms(&mut self, clock: &Function) -> Result<f64, JsError> {
        let session = self.session()?;
        let options = GenerateOptions::default().sampling(Sampling::default().temperature(0.0));
        let mut generation = session.generate_async(&[0], options.max_tokens(TIMED).ignore_eos(true)).await?;
        // The first token comes with the prompt.
        generation.next_async().await?;
        let begun = now(clock);
        let (mut last, mut best) = (begun, f64::INFINITY);
        while generation.next_async().await?.is_some() && last - begun < LONG {
            let at = now(clock);
            (best, last) = (best.min(at - last), at);
        }
        drop(generation);
        session.truncate(0);
        Ok(best)
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
        let asked = serde_json::from_str::<Generate>(&options)?;
        let top = asked.logprobs;
        let options = asked.options()?.cancel(stop.cancel.clone());
        // Layers that pass are read for each chunk: then it is as large as it may be.
        let chunks = if self.load.is_limited() { MOST..MOST } else { FIRST..MOST };
        let before = self.source.read();
        let mut done = generate(self.session()?, &prompt, options, (top, chunks), &turn).await?;
        let Read { bytes, waited } = self.source.read();
        done["readBytes"] = (bytes - before.bytes).into();
        done["waitMs"] = (waited - before.waited).into();
        Ok(done.to_string())
    }

    /// The logits of what follows a prompt, one per id; nothing where that was stopped. `turn` is called as in generation.
    ///
    /// # Errors
    /// If the prompt is empty or too long, or the device fails.
    pub async fn logits(&mut self, prompt: Vec<u32>, stop: &Stop, turn: Function) -> Result<Vec<f32>, JsError> {
        logits(self.session()?, &prompt, &stop.cancel, &turn).await
    }

    /// The named values of a pass over a prompt, as JSON.
    ///
    /// # Errors
    /// If the prompt is empty or too long, or the device fails.
    pub async fn trace(&mut self, prompt: Vec<u32>, options: String) -> Result<String, JsError> {
        let mut trace: Trace = serde_json::from_str(&options)?;
        let session = self.session()?;
        let tokens = match session.model().config().start {
            Some(start) => {
                session.observe_text_async(&prompt, &mut trace).await?;
                vec![start]
            }
            None => prompt,
        };
        session.truncate(0);
        session.observe_async(&tokens, Role::Prefill, Logits::Last, &mut trace).await?;
        Ok(serde_json::to_string(&trace.seen)?)
    }

    /// Verifies the model's GPU once more, and gives all that was found, as JSON.
    ///
    /// # Errors
    /// If the model runs on the processor, or the GPU cannot hold a part of it once more, or fails.
    pub async fn verify(&self) -> Result<String, JsError> {
        #[cfg(feature = "gpu")]
        if self.model.device_label().starts_with("gpu") {
            let options = self.load.options().await?;
            return Ok(
                crate::verified::report(&candor::verify_gpu_async(self.model.gguf(), &options).await?).to_string()
            );
        }
        Err(JsError::new("GPUs alone are verified, and this model runs on the processor: load it with device \"gpu\""))
    }

    /// The session in the library's format.
    ///
    /// # Errors
    /// If the model has none that can be saved, or the device fails.
    #[wasm_bindgen(js_name = saveSession)]
    pub async fn save_session(&mut self) -> Result<Vec<u8>, JsError> {
        let mut bytes = Vec::new();
        self.session()?.save_async(&mut bytes).await?;
        Ok(bytes)
    }

    /// Takes back what was saved, and gives its tokens.
    ///
    /// # Errors
    /// If it is no saved session, or one of another model or of other settings.
    #[wasm_bindgen(js_name = loadSession)]
    pub fn load_session(&mut self, bytes: &[u8]) -> Result<Vec<u32>, JsError> {
        let session = self.session()?;
        session.load(bytes)?;
        Ok(session.tokens().to_vec())
    }
}

impl Engine {
    /// The session, which the first prompt makes.
    fn session(&mut self) -> Result<&mut Session, JsError> {
        if self.session.is_none() {
            self.session = Some(self.model.session(&session(self.load.context, self.model.config()))?);
        }
        self.session.as_mut().ok_or_else(|| JsError::new("no session"))
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

/// What [`Engine::generate`] does.
async fn generate(
    session: &mut Session,
    prompt: &[u32],
    options: GenerateOptions,
    (top, chunks): (Option<usize>, Range<usize>),
    turn: &Function,
) -> Result<Value, JsError> {
    let begun = Date::now();
    let fresh = read(session, prompt, chunks, &options.cancel, turn).await?;
    let mut generation = session.generate_async(prompt, options).await?;
    let prompt_tokens = fresh + generation.timings().prompt_tokens;
    let read = Date::now();
    while let Some(Piece { token, text }) = generation.next_async().await? {
        let session = generation.session();
        let likely =
            token.zip(top).map(|(token, top)| likely(session.model().tokenizer(), session.logits(), token, top));
        turn_over(turn, &piece(token, &text, likely)?).await?;
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
        "cachedTokens": prompt.len().saturating_sub(prompt_tokens),
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
    let last = prompt.len() - 1;
    let mut at = common(session, prompt).min(last);
    let first = at;
    if at < last {
        session.truncate(at);
    }
    let mut size = chunks.start;
    while at < last && !cancel.is_cancelled() {
        let chunk = &prompt[at..last.min(at + size)];
        let look = Look::new();
        let pause = |done: usize, layers: usize, cx: &mut Context<'_>| {
            let share = chunk.len() * done / layers;
            look.poll(cx, || turned(turn, &progress(at + share, prompt.len())?))
        };
        if !session.evaluate_until_async(chunk, cancel, &pause).await? {
            break;
        }
        at += chunk.len();
        size = look.size(size).clamp(chunks.start, chunks.end);
        turn_over(turn, &progress(at, prompt.len())?).await?;
    }
    Ok(at - first)
}

/// What [`Engine::logits`] does.
async fn logits(session: &mut Session, prompt: &[u32], cancel: &Cancel, turn: &Function) -> Result<Vec<f32>, JsError> {
    let Some(last) = prompt.len().checked_sub(1) else { return Err(candor::Error::EmptyPrompt.into()) };
    if let Some(start) = session.model().config().start {
        session.read_text_async(prompt).await?;
        session.evaluate_async(&[start]).await?;
        return Ok(session.logits().to_vec());
    }
    read(session, prompt, FIRST..MOST, cancel, turn).await?;
    if session.tokens() != prompt || session.logits().is_empty() {
        let common = common(session, prompt).min(last);
        session.truncate(common);
        session.evaluate_until_async(&prompt[common..], cancel, &|_, _, _| Poll::Ready(())).await?;
    }
    Ok(session.logits().to_vec())
}

/// Tokens with which both begin.
fn common(session: &Session, prompt: &[u32]) -> usize {
    session.tokens().iter().zip(prompt).take_while(|(a, b)| a == b).count()
}

/// `likely` is JSON.
fn piece(token: Option<u32>, text: &str, likely: Option<String>) -> Result<JsValue, JsError> {
    let token = ("token", token.map_or(JsValue::NULL, JsValue::from));
    object(&[("text", text.into()), token, ("logprobs", likely.map_or(JsValue::UNDEFINED, JsValue::from))])
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
    turned(turn, at)?.await.map(drop).map_err(gone)
}

fn turned(turn: &Function, at: &JsValue) -> Result<JsFuture, JsError> {
    let promise: Promise = turn.call1(&JsValue::UNDEFINED, at).map_err(gone)?.unchecked_into();
    Ok(promise.into())
}

fn gone(_: JsValue) -> JsError {
    JsError::new("the worker has gone")
}
