//! The `candor` command as users meet it: every test runs the program and looks at what it printed and how it ended.
//! They need the built-in model alone; those on other files say so and are skipped without them.

mod adapters;
mod again;
mod ahead;
mod answers;
mod bench;
mod config;
mod context;
mod conversation;
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
mod slow;
#[cfg(unix)]
mod stopping;
#[cfg(unix)]
mod terminal;
mod tokens;
#[cfg(unix)]
mod typing;
