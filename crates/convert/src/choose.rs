//! Which format each tensor gets where the file may have so many bytes: functions of numbers, and of a measure that the caller has.

mod allocate;
mod costs;
mod search;

pub use allocate::{Offer, allocate};
pub use search::{Chosen, search};
