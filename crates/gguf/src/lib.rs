//! The GGUF container: metadata, tensor directory and tensor bytes, read and written.
//!
//! It knows versions 2 and 3, both byte orders, every metadata type and split files. It does not know what a key means
//! (save `general.alignment` and `split.*`), which tensors a model needs, or how to decode one: a tensor is a name, a
//! [`Format`], a shape and bytes. Whatever the input, reading ends in a value or an [`Error`], never in a panic.
//!
//! ```
//! use candor_gguf::{Format, Gguf, Writer};
//!
//! let mut writer = Writer::new();
//! writer.insert("general.architecture", "llama");
//! writer.tensor("scale", Format::F32, &[2], 1f32.to_le_bytes().repeat(2))?;
//! let file = Gguf::from_bytes(writer.to_bytes()?)?;
//! assert_eq!(file.metadata().str("general.architecture")?, Some("llama"));
//! let scale = file.tensor("scale").expect("written above");
//! assert_eq!((scale.format, file.data(scale).len()), (Format::F32, 8));
//! # Ok::<(), candor_gguf::Error>(())
//! ```
//!
//! The format is described in ggml's `docs/gguf.md`; where that is silent, this crate does what ggml's `gguf.cpp` does.

#![deny(unsafe_code)]

mod cursor;
mod directory;
mod element;
mod error;
mod file;
mod looks;
#[allow(unsafe_code)]
mod map;
mod metadata;
#[cfg(target_os = "linux")]
mod pages;
mod partial;
mod prefault;
mod shards;
mod source;
mod tensor;
mod value;
mod writer;

pub use candor_quant::{Format, half};
pub use cursor::ByteOrder;
pub use error::Error;
pub use file::Gguf;
pub use looks::is_llama2c;
pub use map::Pages;
pub use metadata::Metadata;
pub use partial::replace_file;
pub use source::Source;
pub use tensor::TensorInfo;
pub use value::{Array, Value};
pub use writer::{Split, Writer};
