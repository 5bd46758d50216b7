//! How to serve, and what is served.

use candor::{ChatTemplate, Embedder, Engine, Sampling};

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
    /// Most bytes of a request's body.
    pub body: usize,
    /// Answers that may wait for a sequence; more are refused.
    pub queue: usize,
    /// How tokens are chosen where a request does not say.
    pub sampling: Sampling,
    /// Most tokens of an answer where a request does not say.
    pub max_tokens: Option<usize>,
    /// Whether numbers of what is done can be asked for.
    pub metrics: bool,
    /// Whether it can be asked for how many answers are being written.
    pub slots: bool,
    /// Variables of chat templates where a request does not say.
    pub template_variables: serde_json::Map<String, serde_json::Value>,
}

impl Default for Config {
    /// Only this machine, at port 8080; bodies of 16 MiB, 256 waiting answers.
    fn default() -> Config {
        Config {
            host: "127.0.0.1".to_owned(),
            port: 8080,
            keys: Vec::new(),
            hosts: Vec::new(),
            body: 16 << 20,
            queue: 256,
            sampling: Sampling::default(),
            max_tokens: None,
            metrics: false,
            slots: false,
            template_variables: serde_json::Map::new(),
        }
    }
}

/// A model that is loaded, and what it does.
pub struct Ready {
    /// What requests are answered by.
    pub work: Work,
    /// What the model is called.
    pub name: String,
    /// A chat template instead of the model's own.
    pub template: Option<ChatTemplate>,
}

/// What a model does for requests.
pub enum Work {
    /// It answers prompts.
    Answers(Engine),
    /// It makes vectors of texts, or a reranker's scores.
    Vectors(Embedder),
}
