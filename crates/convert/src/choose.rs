//! Chooses the format of each tensor for a limit of bytes: functions of numbers, and of a measure that the caller has.

mod allocate;
mod costs;
mod search;

pub use allocate::{Offer, allocate};
pub use search::{Chosen, search};
