//! Answers over real connections, each against what a session of its own says.

mod answers;
mod batch;
mod client;
mod ends;
mod native;
mod refused;
mod serving;
mod tools;
