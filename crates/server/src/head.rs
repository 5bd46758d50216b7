//! What surrounds the choices of OpenAI's answers: ids, times, counts of tokens.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

/// Says which program answered; llama.cpp's begins so, too.
pub const FINGERPRINT: &str = concat!("b-candor-", env!("CARGO_PKG_VERSION"));

/// Answers that were begun.
static BEGUN: AtomicU64 = AtomicU64::new(0);

/// What is said of all choices of an answer.
pub struct Head {
    id: String,
    number: String,
    created: u64,
    model: String,
    prompt: usize,
    reused: usize,
    tokens: usize,
}

impl Head {
    /// That of an answer which begins at `created`, in seconds since 1970.
    pub fn new(kind: &str, model: &str, created: u64) -> Head {
        let number = format!("{created:x}-{:x}", BEGUN.fetch_add(1, Ordering::Relaxed));
        let (id, model) = (format!("{kind}-{number}"), model.to_owned());
        Head { id, number, created, model, prompt: 0, reused: 0, tokens: 0 }
    }

    /// What the model is called.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// The part of its id that no other answer has.
    pub fn number(&self) -> &str {
        &self.number
    }

    /// Counts the tokens of a prompt, and those of them that did not have to be read.
    pub fn read(&mut self, tokens: usize, reused: usize) {
        self.prompt += tokens;
        self.reused += reused;
    }

    /// Counts the tokens of a choice.
    pub fn count(&mut self, tokens: usize) {
        self.tokens += tokens;
    }

    fn usage(&self) -> Value {
        let (prompt, tokens) = (self.prompt, self.tokens);
        json!({
            "prompt_tokens": prompt,
            "completion_tokens": tokens,
            "total_tokens": prompt + tokens,
            "prompt_tokens_details": { "cached_tokens": self.reused },
        })
    }

    fn around(&self, object: &str, choices: Vec<Value>) -> Value {
        json!({
            "id": self.id,
            "object": object,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": FINGERPRINT,
            "choices": choices,
        })
    }

    /// A piece of a stream.
    pub fn chunk(&self, object: &str, choices: Vec<Value>, with_usage: bool) -> Value {
        let mut chunk = self.around(object, choices);
        if with_usage {
            chunk["usage"] = Value::Null;
        }
        chunk
    }

    /// The end of a stream.
    pub fn last(&self, object: &str, with_usage: bool) -> Vec<Value> {
        if !with_usage {
            return Vec::new();
        }
        let mut chunk = self.around(object, Vec::new());
        chunk["usage"] = self.usage();
        vec![chunk]
    }

    /// All of an answer.
    pub fn whole(&self, object: &str, choices: Vec<Value>) -> Value {
        let mut whole = self.around(object, choices);
        whole["usage"] = self.usage();
        whole
    }
}
