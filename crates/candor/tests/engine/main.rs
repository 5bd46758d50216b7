//! Sessions, sequences, embeddings and answers, held against other programs and against themselves.

mod accuracy;
mod accuracy_page;
mod activations;
mod answers;
mod architectures;
mod batch;
#[path = "../common/company.rs"]
mod company;
mod consistency;
mod embed;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[path = "../../../kernels/tests/x86/amx/emulator.rs"]
mod emulator;
mod engine;
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
mod source;
mod speculation;
mod streamed;
mod variations;
mod windows;
