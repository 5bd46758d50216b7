//! A server of a tiny model on a thread of its own.

use std::{
    net::SocketAddr,
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
    time::Duration,
};

use candor::{
    BatchOptions, ChatTemplate, EmbedOptions, Engine, GenerateOptions, Gguf, LoadOptions, Model, Sampling,
    SessionOptions,
};
use candor_server::{Config, Failure, Listed, Loaded, Models, Ready, Stop, Work, serve};
use candor_testing::Tiny;

use crate::client::get;

/// Tokens of context of each answer.
pub const CONTEXT: usize = 4096;

/// A server that runs.
pub struct Server {
    pub address: SocketAddr,
    pub stop: Stop,
    thread: JoinHandle<Result<(), Failure<String>>>,
}

/// The model that is served: of random weights.
pub fn tiny() -> Model {
    let load = LoadOptions::default().threads(1);
    Model::from_gguf(Gguf::from_bytes(Tiny::default().bytes().into()).unwrap(), &load).unwrap()
}

/// What serves it.
pub fn ready(sequences: usize) -> Ready {
    let options = BatchOptions::default().sequences(sequences).kept(8).context(CONTEXT).rows(64);
    let engine = Engine::new(tiny().batch(&options).unwrap(), 16);
    Ready { work: Work::Answers(engine), template: ChatTemplate::named("chatml").map(Arc::new), diagnose: None }
}

/// A server that makes vectors, or scores, of texts.
pub fn start_vectors(model: Model, options: EmbedOptions) -> Server {
    let server = listen(Config::default(), move || {
        let work = Work::Vectors(model.embedder(&options).unwrap());
        Ok(Loaded::Ready(Box::new(Ready { work, template: None, diagnose: None })))
    });
    wait(&server);
    server
}

/// A model of this name.
pub fn listed(name: &str, load: impl FnMut() -> Result<Loaded, String> + Send + 'static) -> Listed<String> {
    Listed { name: name.to_owned(), path: None, load: Box::new(load) }
}

/// Starts a server of one model on any free port.
pub fn listen(config: Config, load: impl FnMut() -> Result<Loaded, String> + Send + 'static) -> Server {
    listen_to(config, Models::One(listed("tiny", load)))
}

/// Starts a server on any free port.
pub fn listen_to(mut config: Config, models: Models<String>) -> Server {
    config.port = 0;
    let stop = Stop::new();
    let (ended, (heard, hears)) = (stop.clone(), mpsc::channel());
    let thread = thread::spawn(move || serve(config, models, &ended, |address| heard.send(address).unwrap()));
    Server { address: hears.recv().unwrap(), stop, thread }
}

/// Starts one, and waits until it answers.
pub fn start(config: Config, sequences: usize) -> Server {
    let server = listen(config, move || Ok(Loaded::Ready(Box::new(ready(sequences)))));
    wait(&server);
    server
}

/// Waits until a server answers.
pub fn wait(server: &Server) {
    while get(server.address, "/health").status != 200 {
        thread::sleep(Duration::from_millis(5));
    }
}

impl Server {
    /// Ends it; how.
    pub fn end(self) -> Result<(), Failure<String>> {
        self.stop.now();
        self.ended()
    }

    /// Waits for its end; how.
    pub fn ended(self) -> Result<(), Failure<String>> {
        self.thread.join().unwrap()
    }
}

/// What a session says alone: the text, and how many tokens it has.
pub fn alone(prompt: &[u32], sampling: Sampling, tokens: usize) -> (String, usize) {
    let mut session = tiny().session(&SessionOptions::default().context(CONTEXT)).unwrap();
    let options = GenerateOptions::default().sampling(sampling).max_tokens(tokens);
    let pieces = session.generate(prompt, options).unwrap().collect::<Result<Vec<_>, _>>().unwrap();
    let count = pieces.iter().filter(|piece| piece.token.is_some()).count();
    (pieces.into_iter().map(|piece| piece.text).collect(), count)
}
