//! What a GPU computes beside what the processor does. Skipped where there is no adapter, a software one (lavapipe) included.
#![cfg(feature = "gpu")]

mod architectures;
mod best;
mod own;
mod parts;
mod sessions;
