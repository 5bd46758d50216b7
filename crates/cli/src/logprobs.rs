//! `candor run --logprobs`: behind each generated token the likeliest ones, as the model had them before any sampling.

use std::{
    collections::VecDeque,
    fs::File,
    io::{self, BufWriter, IsTerminal, Write},
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use candor::{GenerateOptions, Show, StopReason, Tokenizer};
use candor_inspect::distribution::{log_sum, rank};
use serde::Serialize;

use crate::{
    answer::{Watch, reason},
    args::LogprobsArgs,
    errors::Error,
    output::say,
    text::quoted,
};

/// Logits that a token was or is to be chosen by, the oldest first. With guessed tokens several wait.
type Waiting = Arc<Mutex<VecDeque<Vec<f32>>>>;

/// Says what was likely.
pub struct Logprobs<'a> {
    tokenizer: &'a Tokenizer,
    top: usize,
    waiting: Waiting,
    file: Option<(PathBuf, BufWriter<File>)>,
    tokens: usize,
}

/// A token with its logarithmic probability: llama.cpp's names, and the logit.
#[derive(Serialize)]
struct Likely {
    id: u32,
    token: String,
    bytes: Vec<u8>,
    logit: f32,
    logprob: f64,
}

/// A generated token, or the end of the text.
#[derive(Serialize)]
struct Line {
    #[serde(flatten)]
    chosen: Option<Chosen>,
    /// Why there is no token.
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped: Option<&'static str>,
    top_logprobs: Vec<Likely>,
}

#[derive(Serialize)]
struct Chosen {
    rank: usize,
    #[serde(flatten)]
    token: Likely,
}

impl<'a> Logprobs<'a> {
    /// What the arguments ask for, and options that let it look; `None` where they ask for nothing.
    pub fn of(
        args: &LogprobsArgs,
        tokenizer: &'a Tokenizer,
        options: GenerateOptions,
    ) -> Result<(Option<Logprobs<'a>>, GenerateOptions), Error> {
        let Some(top) = args.logprobs else { return Ok((None, options)) };
        let open = |path: &PathBuf| match File::create(path) {
            Ok(file) => Ok((path.clone(), BufWriter::new(file))),
            Err(error) => Err(Error::File { path: path.clone(), error }),
        };
        let file = args.logprobs_output.as_ref().map(open).transpose()?;
        let waiting = Waiting::default();
        let shared = waiting.clone();
        let options = options.processor(move |_: &[u32], logits: &mut [f32]| {
            shared.lock().unwrap_or_else(PoisonError::into_inner).push_back(logits.to_vec());
        });
        Ok((Some(Logprobs { tokenizer, top, waiting, file, tokens: 0 }), options))
    }

    fn oldest(&self) -> Option<Vec<f32>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    fn line(&self, token: Option<u32>, stopped: Option<&'static str>, logits: &[f32]) -> Line {
        let sum = log_sum(logits);
        let likely = |id: u32| {
            let (bytes, logit) = (self.tokenizer.piece(id, Show::Specials).into_owned(), logits[id as usize]);
            let token = String::from_utf8_lossy(&bytes).into_owned();
            Likely { id, token, bytes, logit, logprob: f64::from(logit) - sum }
        };
        let mut best = Vec::new();
        candor_ops::top_k(logits, self.top, &mut best);
        Line {
            chosen: token.map(|id| Chosen { rank: rank(logits, id), token: likely(id) }),
            stopped,
            top_logprobs: best.into_iter().map(|(id, _)| likely(id)).collect(),
        }
    }

    fn put(&mut self, line: &Line) -> Result<(), Error> {
        self.tokens += 1;
        let Some((path, file)) = &mut self.file else {
            line.say(self.tokens);
            return Ok(());
        };
        let written = serde_json::to_writer(&mut *file, line).map_err(io::Error::from);
        let written = written.and_then(|()| writeln!(file)).and_then(|()| file.flush());
        written.map_err(|error| Error::File { path: path.clone(), error })
    }
}

impl Watch for Logprobs<'_> {
    fn token(&mut self, id: u32, text: &str) -> Result<(), Error> {
        let Some(logits) = self.oldest() else { return Ok(()) };
        // On a terminal the text may stand in the line.
        let together = self.file.is_none() && io::stdout().is_terminal() && io::stderr().is_terminal();
        if together && !text.is_empty() && !text.ends_with('\n') {
            say!("");
        }
        let line = self.line(Some(id), None, &logits);
        self.put(&line)
    }

    /// Says why the text ended; the token that ended it is not part of it.
    fn stopped(&mut self, why: StopReason) -> Result<(), Error> {
        let Some(logits) = self.oldest() else { return Ok(()) };
        let line = self.line(None, Some(reason(why)), &logits);
        self.put(&line)
    }
}

impl Line {
    fn say(&self, number: usize) {
        match (&self.chosen, self.stopped) {
            (Some(Chosen { rank, token: Likely { id, bytes, logit, logprob, .. } }), _) => {
                say!("token {number}: {id} {}, logit {logit:.6}, logprob {logprob:.6}, rank {rank}", quoted(bytes));
            }
            (None, stopped) => say!("token {number}: {}", stopped.unwrap_or_default()),
        }
        for Likely { id, bytes, logit, logprob, .. } in &self.top_logprobs {
            say!("{id:>7}  {logit:>12.6}  {:>10.8}  {}", logprob.exp(), quoted(bytes));
        }
    }
}
