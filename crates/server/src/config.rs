//! How to serve, and what is served.

use std::path::PathBuf;

use candor::{ChatTemplate, Engine, Sampling};

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
    /// Answers that may wait for a sequence; more are refused.
    pub queue: usize,
    /// How tokens are chosen where a request does not say.
    pub sampling: Sampling,
    /// Most tokens of an answer where a request does not say.
    pub max_tokens: Option<usize>,
    /// Whether answers say how they were made, where a request does not say.
    pub verbose: bool,
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
            origins: Vec::new(),
            body: 16 << 20,
            queue: 256,
            sampling: Sampling::default(),
            max_tokens: None,
            verbose: false,
            template_variables: serde_json::Map::new(),
        }
    }
}

/// A model that is loaded, and what makes its answers.
pub struct Ready {
    /// Answers prompts.
    pub engine: Engine,
    /// What the model is called.
    pub name: String,
    /// The file that it was loaded from.
    pub path: Option<PathBuf>,
    /// A chat template instead of the model's own.
    pub template: Option<ChatTemplate>,
}
