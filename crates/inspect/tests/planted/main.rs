//! Faults planted in models and found again.

mod bed;
mod catalogue;
mod model;
mod pairs;
mod partial;
