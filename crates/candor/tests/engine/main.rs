//! Sessions, sequences, embeddings and answers, held against other programs and against themselves.

mod accuracy;
mod answers;
mod architectures;
mod batch;
#[path = "../common/company.rs"]
mod company;
mod consistency;
mod embed;
mod enough;
mod forks;
mod greedy;
mod lora;
mod minilm;
mod own;
mod parts;
mod perplexity;
mod rank;
mod recurrent;
mod samplers;
mod saved;
mod sequences;
mod session;
mod speculation;
mod variations;
mod windows;
