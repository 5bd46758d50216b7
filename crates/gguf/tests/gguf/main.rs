//! Files read, written, refused and damaged.

mod errors;
mod fixtures;
mod mutations;
#[cfg(not(target_family = "wasm"))] // which can't map files into memory
mod open;
mod raw;
mod round_trip;
mod source;
