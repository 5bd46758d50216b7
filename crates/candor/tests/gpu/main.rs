//! What a GPU computes beside what the processor does. Skipped where there is no adapter, a software one (lavapipe) included.
#![cfg(feature = "gpu")]

mod architectures;
mod batch;
mod best;
#[path = "../common/company.rs"]
mod company;
mod own;
mod parts;
mod sessions;
mod streamed;
mod trust;
