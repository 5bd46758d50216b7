//! Files read, written, refused and damaged.

mod errors;
mod fixtures;
mod mutations;
mod open;
mod raw;
mod round_trip;
