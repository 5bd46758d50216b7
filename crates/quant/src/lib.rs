//! The block formats of GGUF weight files: what the bytes of a row mean.
//!
//! A [`Format`] knows its name, its ggml id, its block geometry, and how to decode, encode and byte-swap a row.
//! It does not know tensors, files, or how to multiply.
#![forbid(unsafe_code)]

pub mod blocks;
mod format;
mod formats;
pub mod half;
pub mod lanes;
mod row;

pub use format::Format;
pub use formats::codebook;
pub use row::Unsupported;
