//! Answers over real connections, each against what a session of its own says.

mod adapters;
mod answers;
mod batch;
mod client;
mod counters;
mod ends;
mod infill;
mod log;
mod messages;
mod native;
mod ollama;
mod refused;
mod responses;
mod reuse;
mod serving;
mod several;
mod shapes;
mod tools;
mod traces;
mod vectors;
