//! GGUF files made of GGUF files: weights in other formats, other metadata, importance matrices.
//!
//! [`Mix`] says which format each tensor gets, [`Plan`] makes the file. [`edited`] has what is in a file with changes, [`Imatrix`] what
//! matrices are multiplied with.
#![forbid(unsafe_code)]

mod choose;
mod edit;
mod encode;
mod error;
mod file_type;
mod imatrix;
mod importance;
mod mix;
mod pieces;
mod quantize;

pub use choose::{Chosen, Offer, allocate, search};
pub use edit::{Change, edited, value};
pub use encode::Encoder;
pub use error::Error;
pub use file_type::FileType;
pub use imatrix::{Entry, Imatrix, Layout};
pub use importance::Importance;
pub use mix::{Choice, Mix, Model, Tensor};
pub use quantize::{Done, Options, Plan, Planned};
