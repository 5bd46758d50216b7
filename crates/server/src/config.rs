//! How to serve, and what is served.

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use candor::{ChatTemplate, Embedder, Engine, Sampling};

use crate::log::Ended;

/// How to serve.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// The address to listen at, by name or number.
    pub host: String,
    /// The port; 0 takes any free one.
    pub port: u16,
    /// Keys of which a request has to bring one; without any all requests are answered.
    pub keys: Vec<String>,
    /// Names, besides the machine's own, under which requests may ask for this server.
    pub hosts: Vec<String>,
    /// Origins of pages in browsers that may ask, besides pages under this server's names: `https://chat.example`, `localhost` for those of this
    /// machine, or `*` for all.
    pub origins: Vec<String>,
    /// Most bytes of a request's body.
    pub body: usize,
    /// How long a request's head may take to arrive, and its body.
    pub patience: Duration,
    /// Connections at once; more wait to be taken.
    pub connections: usize,
    /// Answers that may wait for a sequence; more are refused.
    pub queue: usize,
    /// How tokens are chosen where a request does not say.
    pub sampling: Sampling,
    /// Most tokens of an answer where a request does not say.
    pub max_tokens: Option<usize>,
    /// Whether a prompt goes on from what memory holds of another with the same key, where a request does not say.
    pub cache_prompt: bool,
    /// Whether answers say how they were made, where a request does not say.
    pub verbose: bool,
    /// Whether numbers of what is done can be asked for.
    pub metrics: bool,
    /// Whether it can be asked for how many answers are being written.
    pub slots: bool,
    /// Answers of which it is kept how they came to be; those before them are forgotten.
    pub traces: usize,
    /// Models of [`Models::Several`] that are loaded at once; 0 has no limit. For another one the one goes that was not used for the longest
    /// time, and never one that answers.
    pub models_max: usize,
    /// Whether a request has its model loaded, where it does not say; otherwise `/models/load` does.
    pub autoload: bool,
    /// How long a model without requests stays loaded; for ever without.
    pub idle: Option<Duration>,
    /// What hears of models that come and go, and of the end.
    pub news: Option<fn(&News)>,
    /// The certificate and the key that connections are encrypted with; without them they are not.
    pub tls: Option<Tls>,
    /// What prints a line of JSON for each request.
    pub log: Option<fn(&str)>,
    /// What hears of each request when it has ended.
    pub ended: Option<fn(&Ended)>,
    /// Variables of chat templates where a request does not say.
    pub template_variables: serde_json::Map<String, serde_json::Value>,
}

impl Default for Config {
    /// Only this machine, at port 8080; bodies of 16 MiB that take a minute, 4096 connections, 256 waiting answers, prompts that share
    /// memory, 4 models at once.
    fn default() -> Config {
        Config {
            host: "127.0.0.1".to_owned(),
            port: 8080,
            keys: Vec::new(),
            hosts: Vec::new(),
            origins: Vec::new(),
            body: 16 << 20,
            patience: Duration::from_secs(60),
            connections: 4096,
            queue: 256,
            sampling: Sampling::default(),
            max_tokens: None,
            cache_prompt: true,
            verbose: false,
            metrics: false,
            slots: false,
            traces: 0,
            models_max: 4,
            autoload: true,
            idle: None,
            news: None,
            tls: None,
            log: None,
            ended: None,
            template_variables: serde_json::Map::new(),
        }
    }
}

/// The files of a server's identity, in PEM.
#[derive(Clone, Debug)]
pub struct Tls {
    /// The certificate, and those that vouch for it.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// What is served.
pub enum Models<E> {
    /// One model, which answers to every name. It is loaded at once; where it cannot be loaded or fails, serving ends.
    One(Listed<E>),
    /// Several, each loaded when a request names it. One that cannot be loaded leaves the others as they are.
    Several(Vec<Listed<E>>),
}

/// A model that may be asked for.
pub struct Listed<E> {
    /// What it is called.
    pub name: String,
    /// The file that it is loaded from.
    pub path: Option<PathBuf>,
    /// Loads it, each time that it is needed and not there. Runs on a thread of its own.
    pub load: Load<E>,
}

/// Loads a model.
pub type Load<E> = Box<dyn FnMut() -> Result<Loaded, E> + Send>;

/// A model came or went, or the server ends.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum News<'a> {
    /// It was asked to end: it takes no new requests, and answers those that it has.
    Ending,
    /// It answers from now on.
    Ready {
        /// What it is called.
        name: &'a str,
        /// What it does.
        does: Ability,
        /// Tokens of a prompt and its answer at most, or of a text.
        context: usize,
    },
    /// It is in memory no more.
    Unloaded {
        /// What it is called.
        name: &'a str,
    },
    /// It could not be loaded, or failed while it answered.
    Failed {
        /// What it is called.
        name: &'a str,
        /// Why.
        why: &'a str,
    },
}

/// What a model does for requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ability {
    /// It answers this many prompts at once.
    Answers(usize),
    /// It makes vectors of this many numbers.
    Vectors(usize),
    /// It scores pairs of texts.
    Scores,
}

/// What came of loading a model.
pub enum Loaded {
    /// It answers.
    Ready(Box<Ready>),
    /// This machine computes it wrongly: which operation, by how much. Nothing is answered, and `/health` says why.
    Wrong(String),
}

/// A model that is loaded, and what it does.
pub struct Ready {
    /// What requests are answered by.
    pub work: Work,
    /// A chat template instead of the model's own.
    pub template: Option<Arc<ChatTemplate>>,
    /// What holds an answer's operations against formulas, where that can be done.
    pub diagnose: Option<Arc<Diagnose>>,
}

/// Runs a prompt, and the tokens that were written after it, operation by operation.
///
/// # Errors
/// If that cannot be done; in words.
pub type Diagnose = dyn Fn(&[u32], &[u32]) -> Result<Operations, String> + Send + Sync;

/// What came of holding the operations of an answer against formulas.
#[derive(Clone, Debug)]
pub struct Operations {
    /// What is wrong first, in words; `None` where nothing is.
    pub failure: Option<String>,
    /// Tokens of the prompt that were run, from its first on.
    pub prompt: usize,
    /// Tokens after it that were run.
    pub written: usize,
    /// How near each kind of operation came.
    pub report: serde_json::Value,
}

/// What a model does for requests.
pub enum Work {
    /// It answers prompts.
    Answers(Engine),
    /// It makes vectors of texts, or a reranker's scores.
    Vectors(Embedder),
}

impl<E> fmt::Debug for Listed<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listed").field("name", &self.name).field("path", &self.path).finish_non_exhaustive()
    }
}
