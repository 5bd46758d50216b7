//! Proving a backend: every operation runs on it, and is computed again in f64 from the backend's own inputs.
//!
//! [`operations`] runs a model, [`quick`] its first layers, and [`watched`] any [`Work`]. They give [`Operations`]: each class of
//! operations with the worst error and what it may be, and what failed first. The formulas share no code with any backend.
//! Nothing here knows a device or a session.
#![forbid(unsafe_code)]

mod attended;
mod checked;
mod experts;
mod formulas;
mod fusions;
mod ledger;
mod operations;
mod primitives;
mod product;
mod quick;
mod states;

pub use ledger::{Class, FLOOR, Operation, Place, Worst};
pub use operations::{Depth, Operations, Plan, Work, operations, watched};
pub use product::input_step;
pub use quick::quick;
