//! A local LLM engine for GGUF models.
//!
//! ```no_run
//! use candor::{Message, Model};
//!
//! fn main() -> Result<(), candor::Error> {
//!     let model = Model::open("model.gguf", &Default::default())?;
//!     let mut session = model.session(&Default::default())?;
//!     let prompt = model.encode_chat(&[Message::user("Hello, how are you?")])?;
//!     for piece in session.generate(&prompt, Default::default())? {
//!         print!("{}", piece?.text);
//!     }
//!     Ok(())
//! }
//! ```
//!
//! A [`Model`] is a file whose weights are on a [`Device`]; a [`Session`] is a sequence of tokens with its keys and
//! values; [`Session::generate`] continues a prompt; an [`Embedder`] makes vectors of texts; an [`Adapter`]
//! changes what a model computes. A GPU is verified before a model is loaded on it: see [`Verify`]. Nothing here prints,
//! and nothing starts a thread but the processor's pool.
//!
//! The types that signatures name are exported here, so that a program needs no other crate of the house.
#![forbid(unsafe_code)]

#[macro_use]
mod setters;

mod activations;
pub mod adapter;
#[cfg(target_arch = "wasm32")]
mod awaited;
mod backends;
mod batch;
mod cancel;
mod ceilings;
#[cfg(feature = "verify")]
pub mod checked;
mod continuation;
mod device;
mod embed;
mod engine;
pub mod error;
pub mod fit;
mod generate;
mod gpus;
mod model;
mod now;
mod observe;
pub mod overrides;
mod part;
mod past;
mod perplexity;
mod plan;
mod pooling;
mod progress;
mod rounding;
mod runner;
pub mod sampler;
pub mod saved;
mod sequences;
mod session;
mod size;
pub mod speculate;
mod speed;
mod streamed;
pub mod trust;

pub use candor_cpu::{Batching, Cpus, Join, Placing, Spawn, Work};
pub use candor_gguf::{
    Array as MetadataArray, ByteOrder, Format, Gguf, Metadata, Source, TensorInfo, Value as MetadataValue,
};
#[cfg(feature = "gpu")]
pub use candor_gpu::{AdapterChoice, Cooperative, Dequant, GpuOptions, Timed, Variant, timed};
pub use candor_models::{Config, Gives};
pub use candor_ops::{KvFormat, Listener, Ops, PAGE, Product, Ranked, SharedListener, Stack, Step, Traffic, top_k};
pub use candor_tokenizer::{
    AnswerFormat, AnswerParser, AnswerStart, CallPart, ChatContext, ChatTemplate, CivilTime, Encode, FillIn, Message,
    Part as AnswerPart, Show, StreamDecoder, TemplateFit, Tokenizer, ToolCall,
};

pub use activations::Activations;
pub use adapter::Adapter;
#[cfg(all(feature = "gpu", target_arch = "wasm32"))]
pub use awaited::verify_gpu_async;
#[cfg(target_arch = "wasm32")]
pub use awaited::{chosen_gpus_async, devices_async, perplexity_async, visit_backend_async};
pub use backends::{BackendVisitor, chosen_gpus, devices, missing_on_gpus, visit_backend};
pub use batch::{Answer, Batch, BatchOptions, Outputs, Role, SequenceId, Value, Want};
pub use cancel::Cancel;
pub use ceilings::{Ceilings, GpuCeilings, ceilings, gpu_ceilings};
pub use continuation::Continuation;
pub use device::{Device, DeviceInfo, GpuLayers, Offload, Placement};
pub use embed::{EmbedOptions, Embedder, Overlong};
pub use engine::{Engine, Event, Finish, Load, Reuse, Ticket};
pub use error::Error;
pub use fit::Fit;
pub use generate::{ContextShift, GenerateOptions, Generation, Piece, StopReason, Timings};
pub use model::{LoadOptions, Model, Weights};
pub use observe::{Observed, Observer};
pub use overrides::{MetadataOverride, Overrides, RopeOverrides, RopeScaling};
pub use perplexity::{Perplexity, Windows, negative_log_likelihood, perplexity, score};
pub use pooling::{Pooling, Scaling};
#[cfg(target_arch = "wasm32")]
pub use progress::Pause;
pub use progress::Progress;
pub use rounding::Rounding;
pub use sampler::Sampling;
pub use sequences::Sequences;
pub use session::{Logits, Session, SessionOptions};
pub use speed::processor_token_ms;
pub use trust::{Trust, Verify};
