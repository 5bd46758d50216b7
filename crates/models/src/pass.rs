//! Everything that one forward pass works on.

use candor_ops::{Ops, Step};

use crate::scratch::Scratch;

/// Everything that one forward pass works on.
pub struct Pass<'a, B: Ops, P> {
    /// The backend.
    pub ops: &'a mut B,
    /// Room for values in flight.
    pub s: &'a mut Scratch<B>,
    /// Keys and values so far.
    pub kv: &'a mut B::Kv,
    /// Tokens and their places.
    pub step: Step<'a>,
    /// The observer.
    pub tap: &'a mut P,
}
