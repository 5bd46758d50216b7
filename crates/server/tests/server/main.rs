//! Answers over real connections, each against what a session of its own says.

mod answers;
mod client;
mod ends;
mod refused;
mod reuse;
mod serving;
mod tools;
