//! The `candor` command as users meet it: every test runs the program and looks at what it printed and how it ended.
//! They need the built-in model alone; those on other files say so and are skipped without them.

mod adapters;
mod again;
mod ahead;
mod answers;
mod batch;
mod bench;
mod compare;
mod config;
mod context;
mod conversation;
mod copied;
mod debug_prints;
mod devices;
mod documents;
mod embed;
mod faults;
#[cfg(target_os = "linux")]
mod fit;
mod full;
mod gguf;
#[cfg(feature = "gpu")]
mod gpu;
mod hub;
mod imatrix;
mod inspect;
mod inspect_run;
mod interfaces;
#[cfg(not(feature = "gpu"))]
mod no_gpu;
mod overrides;
mod pages;
mod program;
mod quantize;
mod run;
mod sampling;
mod serve;
mod shapes;
mod show;
#[cfg(unix)]
mod signals;
mod slow;
#[cfg(unix)]
mod stopping;
mod target;
mod templates;
#[cfg(unix)]
mod terminal;
mod thinking;
mod tokens;
#[cfg(unix)]
mod typing;
