//! How the last answers came to be: what was read and written, and how likely each token was.

use std::{
    collections::VecDeque,
    hash::{BuildHasher, Hasher, RandomState},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use candor::{Event, Finish, GenerateOptions, Model, Show, Tokenizer};
use serde_json::{Value, json};

use crate::{
    likely::{Likely, Watch},
    record::{self, reason},
    refusal::Refusal,
};

/// The last requests that were answered.
pub struct Traces {
    /// How many are kept.
    most: usize,
    kept: Mutex<VecDeque<Arc<Trace>>>,
}

/// The answers to a request.
pub struct Trace {
    id: String,
    /// Whose it is: nobody else learns that it is there.
    scope: u64,
    created: u64,
    model: String,
    tokenizer: Arc<Tokenizer>,
    answers: Mutex<Vec<Traced>>,
}

/// An answer so far.
pub struct Traced {
    /// The prompt.
    pub prompt: Vec<u32>,
    settings: Value,
    watch: Watch,
    /// What was written, and how likely it was.
    pub tokens: Vec<(u32, Likely)>,
    end: Option<Finish>,
}

/// The likeliest tokens that are kept with each token.
const TOP: usize = 5;

impl Traces {
    /// As many as `most`.
    pub fn new(most: usize) -> Traces {
        Traces { most, kept: Mutex::default() }
    }

    /// Begins to note the answers to these prompts, at `created` seconds since 1970; `None` where none are kept.
    pub fn begin(
        &self,
        (model, name): (&Model, &str),
        scope: u64,
        created: u64,
        prompts: &mut [(Vec<u32>, GenerateOptions)],
    ) -> Option<Arc<Trace>> {
        if self.most == 0 {
            return None;
        }
        let tokenizer = model.tokenizer();
        let answers = prompts.iter_mut().map(|(prompt, options)| Traced::new(prompt, options, tokenizer)).collect();
        Some(Arc::new(Trace {
            id: id(),
            scope,
            created,
            model: name.to_owned(),
            tokenizer: tokenizer.clone(),
            answers: Mutex::new(answers),
        }))
    }

    /// Keeps one; the oldest goes where there are too many.
    pub fn keep(&self, trace: Arc<Trace>) {
        let mut kept = lock(&self.kept);
        kept.push_back(trace);
        let over = kept.len().saturating_sub(self.most);
        kept.drain(..over);
    }

    /// One by its id.
    ///
    /// # Errors
    /// If nobody with this key has it any more.
    pub fn find(&self, scope: u64, id: &str) -> Result<Arc<Trace>, Refusal> {
        if self.most == 0 {
            return Err(Refusal::other_model("this server keeps no traces: start it with `--traces N`"));
        }
        let kept = lock(&self.kept);
        let found = kept.iter().find(|trace| trace.scope == scope && trace.id == id);
        found
            .cloned()
            .ok_or_else(|| Refusal::missing(format!("no such trace: the last {} answers have one", self.most)))
    }
}

impl Trace {
    /// What it is called.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What its model is called.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Notes what happened to an answer.
    pub fn note(&self, index: usize, event: &Event) {
        let mut answers = lock(&self.answers);
        let Some(answer) = answers.get_mut(index) else { return };
        match event {
            Event::Piece(piece) => {
                let likely = piece.token.and_then(|id| Some((id, answer.watch.token(id)?)));
                answer.tokens.extend(likely);
            }
            Event::Done(finish) => answer.end = Some(*finish),
            _ => {}
        }
    }

    /// The answers.
    pub fn answers(&self) -> MutexGuard<'_, Vec<Traced>> {
        lock(&self.answers)
    }

    /// All of it.
    pub fn json(&self) -> Value {
        let text = |ids: &mut dyn Iterator<Item = u32>| {
            let bytes: Vec<u8> = ids.flat_map(|id| self.tokenizer.piece(id, Show::Specials).into_owned()).collect();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let answer = |(index, answer): (usize, &Traced)| {
            let ids = || answer.tokens.iter().map(|(id, _)| *id);
            json!({
                "index": index,
                "prompt": { "tokens": answer.prompt, "text": text(&mut answer.prompt.iter().copied()) },
                "reused": answer.end.map(|end| end.reused),
                "settings": answer.settings,
                "seed": answer.end.map(|end| end.seed),
                "tokens": ids().collect::<Vec<_>>(),
                "text": text(&mut ids()),
                "probabilities": answer.tokens.iter().map(|(_, likely)| likely.json()).collect::<Vec<_>>(),
                "finish_reason": answer.end.map(|end| reason(end.reason)),
            })
        };
        let answers: Vec<Value> = self.answers().iter().enumerate().map(answer).collect();
        json!({
            "object": "trace",
            "trace_id": self.id,
            "created": self.created,
            "model": self.model,
            "answers": answers,
        })
    }
}

impl Traced {
    /// That of an answer to `prompt`, whose logits are looked at before anything changes them.
    fn new(prompt: &[u32], options: &mut GenerateOptions, tokenizer: &Arc<Tokenizer>) -> Traced {
        let settings = record::settings(options, tokenizer);
        let (watch, watched) = Watch::over(std::mem::take(options), tokenizer.clone(), TOP);
        *options = watched;
        options.processors.rotate_right(1);
        Traced { prompt: prompt.to_vec(), settings, watch, tokens: Vec::new(), end: None }
    }
}

/// Sixteen bytes that nobody guesses.
fn id() -> String {
    let half = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", half(), half())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
