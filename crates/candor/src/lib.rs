//! A local LLM engine for GGUF models.
//!
//! ```no_run
//! use candor::{Message, Model};
//!
//! fn main() -> Result<(), candor::Error> {
//!     let model = Model::open("model.gguf", &Default::default())?;
//!     let mut session = model.session(&Default::default())?;
//!     let prompt = model.chat(&[Message::user("Hello, how are you?")])?;
//!     for piece in session.generate(&prompt, Default::default())? {
//!         print!("{}", piece?.text);
//!     }
//!     Ok(())
//! }
//! ```
//!
//! A [`Model`] is a file whose weights are on a [`Device`]; a [`Session`] is a sequence of tokens with its keys and
//! values; [`Session::generate`] continues a prompt; an [`Embedder`] makes vectors of texts; an [`Adapter`]
//! changes what a model computes. Nothing here prints, and nothing starts a thread but the processor's pool.
#![forbid(unsafe_code)]

pub mod adapter;
#[cfg(target_arch = "wasm32")]
mod awaited;
mod backends;
mod batch;
mod cancel;
mod ceilings;
mod continuation;
mod device;
mod embed;
mod error;
mod generate;
mod gpus;
mod model;
mod now;
mod observe;
mod past;
mod perplexity;
mod plan;
mod pooling;
mod runner;
pub mod sampler;
pub mod saved;
mod sequences;
mod session;
pub mod speculate;
pub mod trust;

pub use candor_cpu::{Batching, Cpus, Placing, Unavailable};
pub use candor_gguf as gguf;
#[cfg(feature = "gpu")]
pub use candor_gpu as gpu;
pub use candor_kernels as kernels;
pub use candor_models as models;
pub use candor_ops as ops;
pub use candor_tokenizer as tokenizer;
pub use candor_tokenizer::{ChatContext, ChatTemplate, Message, Tokenizer};

pub use adapter::Adapter;
#[cfg(target_arch = "wasm32")]
pub use awaited::{chosen_gpus_async, devices_async, perplexity_async, visit_backend_async};
pub use backends::{BackendVisitor, chosen_gpus, devices, missing_on_gpus, visit_backend};
pub use batch::{Answer, Batch, BatchOptions, Outputs, Role, SequenceId, Value, Want};
pub use cancel::Cancel;
pub use ceilings::{Ceilings, GpuCeilings, ceilings, gpu_ceilings};
pub use continuation::Continuation;
pub use device::{Device, DeviceInfo, GpuLayers, Offload, Placement};
pub use embed::{EmbedOptions, Embedder, Overlong};
pub use error::Error;
pub use generate::{ContextShift, GenerateOptions, Generation, Piece, StopReason, Timings};
pub use model::{LoadOptions, Model, Weights};
pub use observe::{Observed, Observer};
pub use perplexity::{Perplexity, perplexity};
pub use pooling::{Pooling, Scaling};
pub use sampler::Sampling;
pub use sequences::Sequences;
pub use session::{Logits, Session, SessionOptions};
pub use trust::{Trust, Verify};
