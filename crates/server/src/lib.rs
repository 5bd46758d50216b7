//! Answers over HTTP by one model: OpenAI's endpoints, and those of llama.cpp's server.
//!
//! [`serve`] binds its address, loads the model on a thread that owns the [`Engine`](candor::Engine), and answers until [`Stop`]
//! says otherwise. This is the only crate that awaits on its own. An answer is what it is alone, beside any others:
//! see [`Engine`](candor::Engine).
#![forbid(unsafe_code)]

mod answer;
mod app;
mod ask;
mod chat;
mod completions;
mod config;
mod fields;
mod guard;
mod head;
mod likely;
mod native;
mod refusal;
mod routes;
mod serving;
mod shape;
mod stop;
mod template;
mod worker;

pub use config::{Config, Ready};
pub use serving::{Failure, serve};
pub use stop::Stop;
