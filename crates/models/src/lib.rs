//! Model wirings: one file per way of connecting operations, and one table of the architectures that use them.
//!
//! A wiring reads its configuration and weights from a GGUF file and runs on any backend. Nothing here knows which
//! backend that is, what a tokenizer is, or how text is sampled.
#![forbid(unsafe_code)]

mod attention;
mod beside;
mod channel_mix;
mod config;
mod cross;
mod decoder;
mod delta;
mod dry;
mod encoder;
mod error;
mod experts;
mod ffn;
mod keys;
mod latent;
mod laurel;
mod layer;
mod linear;
mod mamba;
mod mamba2;
mod masks;
mod mixer;
mod needs;
mod norm;
mod part;
mod per_layer;
mod rank;
mod registry;
mod rope;
mod rwkv6;
mod rwkv7;
mod short_conv;
mod sparse;
mod stacks;
mod streams;
mod temperature;
mod token_shift;
mod weights;

pub use config::{Config, Gives};
pub use decoder::{Decoder, Pass, Scratch};
pub use error::Error;
pub use part::{Begin, End, Part};
pub use rank::Rank;
pub use registry::{ARCHITECTURES, Architecture};
