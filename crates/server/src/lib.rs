//! Answers over HTTP by one model: the endpoints of OpenAI, Anthropic, Ollama and llama.cpp's server.
//!
//! [`serve`] binds its address, loads the model on a thread that owns the [`Engine`](candor::Engine), and answers until [`Stop`]
//! says otherwise. This is the only crate that awaits on its own. An answer is what it is alone, beside any others:
//! see [`Engine`](candor::Engine).
#![forbid(unsafe_code)]

mod answer;
mod app;
mod ask;
mod blocks;
mod chat;
mod completions;
mod config;
mod counters;
mod fields;
mod guard;
mod head;
mod history;
mod likely;
mod messages;
mod native;
mod ollama;
mod refusal;
mod responses;
mod routes;
mod serving;
mod stop;
mod template;
mod texts;
mod vectors;
mod worker;

pub use config::{Config, Ready, Work};
pub use serving::{Failure, serve};
pub use stop::Stop;
