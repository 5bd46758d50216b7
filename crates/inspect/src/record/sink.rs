//! What recorded values go to.

use crate::{
    Key,
    file::{TraceWriter, WriteError},
};

/// Takes rows of values, in the order of computation.
pub trait Sink {
    /// Takes `[rows, width]`; the first row is token `first`'s.
    ///
    /// # Errors
    /// If they cannot be kept.
    fn rows(&mut self, key: &Key, width: usize, first: usize, values: &[f32]) -> Result<(), WriteError>;
}

impl Sink for TraceWriter {
    fn rows(&mut self, key: &Key, width: usize, first: usize, values: &[f32]) -> Result<(), WriteError> {
        self.push(key, width, first, values)
    }
}
