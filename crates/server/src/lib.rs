//! Answers over HTTP by one model or several: the endpoints of OpenAI, Anthropic, Ollama and llama.cpp's server.
//!
//! [`serve`] binds its address, loads each model on a thread that owns its [`Engine`](candor::Engine), and answers until [`Stop`]
//! says otherwise. This is the only crate that awaits on its own. An answer is what it is alone, beside any others:
//! see [`Engine`](candor::Engine).
#![forbid(unsafe_code)]

mod answer;
mod app;
mod ask;
mod batch;
mod blocks;
mod calls;
mod chat;
mod completions;
mod config;
mod connections;
mod counters;
mod diagnose;
mod echo;
mod failure;
mod fields;
mod guard;
mod head;
mod history;
mod infill;
mod likely;
mod log;
mod lora;
mod messages;
mod models;
mod native;
mod ollama;
mod openapi;
mod record;
mod refusal;
mod registry;
mod responses;
mod routes;
mod serving;
mod shape;
mod stop;
mod template;
mod texts;
mod tls;
mod traces;
mod vectors;
mod worker;

pub use batch::Batch;
pub use config::{Ability, Config, Diagnose, Listed, Load, Loaded, Models, News, Operations, Ready, Tls, Work};
pub use failure::{BatchError, Failure};
pub use log::{Done, Ended};
pub use serving::serve;
pub use stop::Stop;
