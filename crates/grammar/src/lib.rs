//! Answers of a given shape: JSON schemas, regular expressions and grammars as masks of logits.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use candor::{GenerateOptions, Model};
//! use candor_grammar::{Grammar, Vocabulary};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let model = Model::open("model.gguf", &Default::default())?;
//! // Once for a model.
//! let vocabulary = Arc::new(Vocabulary::new(model.tokenizer())?);
//! let grammar = Grammar::regex("(yes|no), because [a-z ]{1,80}\\.")?;
//! let options = GenerateOptions::default().processor(grammar.mask(&vocabulary)?);
//! let mut session = model.session(&Default::default())?;
//! for piece in session.generate(&model.encode_prompt("Is the sky blue? "), options)? {
//!     print!("{}", piece?.text);
//! }
//! # Ok(()) }
//! ```
//!
//! A [`Mask`] takes away every token that the grammar does not allow next, and the tokens that end a text where it may not end.
//! Control tokens are never part of a text. Schemas, regular expressions and Lark's grammars are followed by `llguidance`, GBNF by
//! this crate itself: `llguidance` divides a text into lexemes first, and the longest wins, which a grammar of letters does not say.
#![forbid(unsafe_code)]

mod before;
mod error;
mod gbnf;
mod grammar;
mod guided;
mod mask;
mod schema;
mod vocabulary;

pub use error::Error;
pub use grammar::{Grammar, Part};
pub use mask::Mask;
pub use vocabulary::Vocabulary;
