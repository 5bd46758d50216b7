//! llama.cpp's grammars: read, checked, and followed letter by letter.

mod machine;
mod rules;
mod text;

pub use machine::{DEAD, Machine};
pub use rules::Rules;
