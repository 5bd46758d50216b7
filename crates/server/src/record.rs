//! What llama.cpp's server says of an answer besides its text: settings, tokens, times and how far the prompt was read.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use candor::{Finish, GenerateOptions, Piece, Show, StopReason, Tokenizer};
use serde_json::{Value, json};

use crate::{
    config::Config,
    fields::Fields,
    likely::{Likely, Watch},
    refusal::Refusal,
};

/// What a request wants to know besides the text.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted {
    /// Times with every piece of a stream.
    pub timings: bool,
    /// How far the prompt is read, in a stream.
    pub progress: bool,
    /// How the answer was made, in answers of OpenAI's form.
    pub verbose: bool,
}

/// What the answers to a request have in common.
pub struct Shared {
    pub model: String,
    pub wanted: Wanted,
    /// The settings, without the seed.
    settings: Value,
    stops: Vec<String>,
    tokenizer: Arc<Tokenizer>,
}

/// An answer so far.
pub struct Record {
    shared: Arc<Shared>,
    prompt: Vec<u32>,
    /// How many of its tokens do not have to be read.
    reused: usize,
    content: String,
    tokens: Vec<u32>,
    watch: Option<Watch>,
    likely: Vec<Likely>,
    clock: Clock,
    end: Option<Finish>,
}

/// When the parts of an answer came.
struct Clock {
    begun: Instant,
    /// Tokens of the prompt that were read, and when the last of them were.
    read: usize,
    read_at: Option<Instant>,
    token_at: Option<Instant>,
}

impl Wanted {
    /// What a request says of it, or the server.
    ///
    /// # Errors
    /// If a field is not true or false.
    pub fn of(fields: &mut Fields, config: &Config) -> Result<Wanted, Refusal> {
        Ok(Wanted {
            timings: fields.flag("timings_per_token")?.unwrap_or_default(),
            progress: fields.flag("return_progress")?.unwrap_or_default(),
            verbose: fields.flag("verbose")?.unwrap_or(config.verbose),
        })
    }
}

impl Shared {
    /// That of answers by these options.
    pub fn new(model: &str, wanted: Wanted, options: &GenerateOptions, tokenizer: &Arc<Tokenizer>) -> Shared {
        Shared {
            model: model.to_owned(),
            wanted,
            settings: settings(options, tokenizer),
            stops: options.stop.clone(),
            tokenizer: tokenizer.clone(),
        }
    }

    /// Adds a setting.
    pub fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.settings[name] = value.into();
    }
}

/// The settings of an answer, by llama.cpp's names.
pub fn settings(options: &GenerateOptions, tokenizer: &Tokenizer) -> Value {
    let mut settings = serde_json::to_value(&options.sampling).unwrap_or_default();
    if let Some(settings) = settings.as_object_mut()
        && let Some(exponent) = settings.shift_remove("dynatemp_exp")
    {
        settings.insert("dynatemp_exponent".to_owned(), exponent);
    }
    // What llama.cpp has for a seed that is drawn.
    settings["seed"] = options.sampling.seed.unwrap_or(u32::MAX).into();
    // A bias that excludes a token is infinite, which JSON cannot say: null stands for it.
    let bias = |&(token, bias): &(u32, f32)| json!({ "token": token, "bias": bias.is_finite().then_some(bias) });
    let excluded = tokenizer.stop_ids().iter().filter(|_| options.ignore_eos).map(|&id| (id, f32::NEG_INFINITY));
    let biases = options.sampling.logit_bias.iter().copied().chain(excluded);
    settings["logit_bias"] = biases.map(|one| bias(&one)).collect();
    let most = options.max_tokens.map_or(-1, |most| i64::try_from(most).unwrap_or(i64::MAX));
    (settings["n_predict"], settings["max_tokens"]) = (most.into(), most.into());
    settings["ignore_eos"] = options.ignore_eos.into();
    settings["stop"] = options.stop.clone().into();
    // A sampler that is off always.
    (settings["adaptive_target"], settings["adaptive_decay"]) = ((-1.0).into(), 0.9.into());
    settings
}

/// OpenAI's name for an end.
pub fn reason(reason: StopReason) -> &'static str {
    match reason {
        StopReason::EndOfText | StopReason::StopText => "stop",
        StopReason::MaxTokens | StopReason::ContextFull => "length",
        StopReason::Cancelled => "cancelled",
    }
}

/// A record for each of these answers.
pub fn each(shared: Shared, asked: &[(Vec<u32>, GenerateOptions)], watches: Vec<Option<Watch>>) -> Vec<Record> {
    let shared = Arc::new(shared);
    asked.iter().zip(watches).map(|((prompt, _), watch)| Record::new(&shared, prompt, watch)).collect()
}

impl Record {
    /// That of an answer to `prompt`, of which nothing was read yet.
    fn new(shared: &Arc<Shared>, prompt: &[u32], watch: Option<Watch>) -> Record {
        Record {
            shared: shared.clone(),
            prompt: prompt.to_vec(),
            reused: 0,
            content: String::new(),
            tokens: Vec::new(),
            watch,
            likely: Vec::new(),
            clock: Clock { begun: Instant::now(), read: 0, read_at: None, token_at: None },
            end: None,
        }
    }

    /// Notes how many tokens of the prompt are in memory before it is read; what a stream says of it.
    pub fn begun(&mut self, reused: usize) -> Option<Value> {
        (self.reused, self.clock.read) = (reused, reused);
        self.progress()
    }

    /// Notes that tokens of the prompt are in memory; what a stream says of it.
    pub fn read(&mut self, done: usize) -> Option<Value> {
        // An answer that was set back reads its prompt once more.
        if !self.tokens.is_empty() || done <= self.clock.read {
            return None;
        }
        (self.clock.read, self.clock.read_at) = (done, Some(Instant::now()));
        self.progress()
    }

    /// How far the prompt is read, where a request wants to know it.
    fn progress(&self) -> Option<Value> {
        let time = self.clock.begun.elapsed().as_millis() as u64;
        let (total, processed) = (self.prompt.len(), self.clock.read);
        let progress = || json!({ "total": total, "cache": self.reused, "processed": processed, "time_ms": time });
        self.shared.wanted.progress.then(progress)
    }

    /// Notes a piece; how likely its token was, where that is watched.
    pub fn piece(&mut self, piece: &Piece) -> Option<&Likely> {
        self.content.push_str(&piece.text);
        let token = piece.token?;
        self.tokens.push(token);
        self.clock.token_at = Some(Instant::now());
        let likely = self.watch.as_mut()?.token(token)?;
        self.likely.push(likely);
        self.likely.last()
    }

    /// All text so far, as the model wrote it.
    pub fn content(&self) -> &str {
        &self.content
    }

    /// How likely each token was; `None` where nobody watches.
    pub fn likely(&self) -> Option<&[Likely]> {
        self.watch.as_ref().map(|_| &self.likely[..])
    }

    /// Notes the end.
    pub fn end(&mut self, finish: &Finish) {
        self.end = Some(*finish);
    }

    /// Notes how likely the token was that ended the text, which is no part of it.
    pub fn end_likely(&mut self, finish: &Finish) -> Option<&Likely> {
        let likely = self.watch.as_mut()?.token(finish.end?)?;
        self.likely.push(likely);
        self.likely.last()
    }

    /// Adds to a piece of a stream what the request wants to know with each.
    pub fn note(&self, chunk: &mut Value, progress: Option<Value>) {
        if self.shared.wanted.timings {
            chunk["timings"] = self.timings();
        }
        if let Some(progress) = progress {
            chunk["prompt_progress"] = progress;
        }
    }

    /// Adds to an answer in OpenAI's form, or to the last piece of its stream, how it was made.
    pub fn explain(&self, answer: &mut Value) {
        if self.shared.wanted.verbose
            && let Some(whole) = self.whole(0, false, true)
        {
            answer["__verbose"] = whole;
        }
    }

    /// How long what took so far.
    pub fn timings(&self) -> Value {
        let Clock { begun, read, read_at, token_at } = self.clock;
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let prompt = read_at.map_or(0.0, |at| ms(at - begun));
        let tokens = self.end.map_or(self.tokens.len(), |end| end.tokens);
        // The first token follows from the prompt's last row: the others took a step each.
        let steps = tokens.saturating_sub(1);
        let predicted = read_at.zip(token_at).map_or(0.0, |(from, to)| ms(to.saturating_duration_since(from)));
        let each = |time: f64, count: usize| if count > 0 { time / count as f64 } else { 0.0 };
        let rate = |time: f64, count: usize| if time > 0.0 { 1e3 / time * count as f64 } else { 0.0 };
        let read = read.saturating_sub(self.reused);
        json!({
            "cache_n": self.reused,
            "prompt_n": read,
            "prompt_ms": prompt,
            "prompt_per_token_ms": each(prompt, read),
            "prompt_per_second": rate(prompt, read),
            "predicted_n": tokens,
            "predicted_ms": predicted,
            "predicted_per_token_ms": each(predicted, steps),
            "predicted_per_second": rate(predicted, steps),
        })
    }

    /// A piece of a stream in llama.cpp's own form.
    pub fn chunk(&self, index: usize, text: &str, token: Option<u32>) -> Value {
        json!({
            "index": index,
            "content": text,
            "tokens": Vec::from_iter(token),
            "stop": false,
            "tokens_predicted": self.tokens.len(),
            "tokens_evaluated": self.prompt.len(),
        })
    }

    /// All of the answer in llama.cpp's own form; the last part of a stream lacks what was sent before.
    pub fn whole(&self, index: usize, streamed: bool, with_tokens: bool) -> Option<Value> {
        let finish = self.end.as_ref()?;
        let stop_type = match finish.reason {
            StopReason::EndOfText => "eos",
            StopReason::StopText => "word",
            StopReason::MaxTokens | StopReason::ContextFull => "limit",
            StopReason::Cancelled => "none",
        };
        let word = finish.stop_text.and_then(|stop| self.shared.stops.get(stop)).map_or("", String::as_str);
        let mut settings = self.shared.settings.clone();
        settings["seed"] = finish.seed.into();
        let tokenizer = &self.shared.tokenizer;
        let prompt: Vec<u8> =
            self.prompt.iter().flat_map(|&id| tokenizer.piece(id, Show::Specials).into_owned()).collect();
        let tokens: &[u32] = if with_tokens && !streamed { &self.tokens } else { &[] };
        let mut whole = json!({
            "index": index,
            "content": if streamed { "" } else { &self.content },
            "tokens": tokens,
            "stop": true,
            "model": self.shared.model,
            "tokens_predicted": finish.tokens,
            "tokens_evaluated": finish.prompt,
            "tokens_cached": finish.reused,
            "generation_settings": settings,
            "prompt": String::from_utf8_lossy(&prompt),
            "has_new_line": self.content.contains('\n'),
            "truncated": finish.reason == StopReason::ContextFull,
            "stop_type": stop_type,
            "stopping_word": word,
            "timings": self.timings(),
        });
        if !streamed && !self.likely.is_empty() {
            whole["completion_probabilities"] = self.likely.iter().map(Likely::json).collect();
        }
        Some(whole)
    }
}
