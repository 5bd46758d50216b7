//! The `candor` command as users meet it: every test runs the program and looks at what it printed and how it ended.
//! They need the built-in model alone; those on other files say so and are skipped without them.

mod adapters;
mod ahead;
mod answers;
mod bench;
mod case_studies;
mod config;
mod context;
mod conversation;
mod debug_prints;
mod devices;
mod documents;
mod embed;
mod faults;
#[cfg(feature = "gpu")]
mod gpu;
mod inspect;
mod inspect_run;
#[cfg(not(feature = "gpu"))]
mod no_gpu;
mod program;
mod run;
mod sampling;
mod show;
#[cfg(unix)]
mod signals;
#[cfg(unix)]
mod terminal;
mod tokens;
