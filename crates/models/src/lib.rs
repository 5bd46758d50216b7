//! Model wirings: one file per way of connecting operations, and one table of the architectures that use them.
//!
//! A wiring reads its configuration and weights from a GGUF file and runs on any backend. Nothing here knows which
//! backend that is, what a tokenizer is, or how text is sampled.
#![forbid(unsafe_code)]

mod arch;
mod at;
mod block;
mod common;
mod config;
mod decoder;
mod dry_run;
mod encoder;
mod error;
mod extra;
mod ffn;
mod keys;
mod layer;
mod linear;
mod masks;
mod metadata;
mod mixer;
mod needs;
mod norm;
mod part;
mod pass;
mod rank;
mod rope;
mod scratch;
mod stacks;
mod temperature;
mod token_shift;
mod weights;

pub use arch::{ARCHITECTURES, Architecture};
pub use common::{Common, Gives};
pub use config::{Config, WindowRotation};
pub use decoder::Decoder;
pub use error::Error;
pub use part::{Begin, End, Part};
pub use pass::Pass;
pub use rank::Rank;
pub use scratch::Scratch;
