//! Activations, and scratch memory for them.

use crate::memory::{Pages, zeros};

/// `[rows, width]` floats with room for more rows.
#[derive(Clone, Debug)]
pub struct Buf {
    pub(crate) rows: usize,
    /// How many of the last rows decode.
    pub(crate) decoding: usize,
    pub(crate) width: usize,
    pub(crate) values: Vec<f32>,
}

impl Buf {
    pub(crate) fn new(rows: usize, width: usize, pages: Pages) -> Buf {
        Buf { rows: 0, decoding: 0, width, values: zeros(rows * width, pages) }
    }

    /// Has as many rows of each kind as another.
    pub(crate) fn like(&mut self, other: &Buf) {
        (self.rows, self.decoding) = (other.rows, other.decoding);
    }

    /// The rows in flight.
    pub(crate) fn live(&self) -> &[f32] {
        &self.values[..self.rows * self.width]
    }

    pub(crate) fn live_mut(&mut self) -> &mut [f32] {
        &mut self.values[..self.rows * self.width]
    }

    pub(crate) fn row(&self, row: usize) -> &[f32] {
        &self.values[row * self.width..][..self.width]
    }

    pub(crate) fn row_mut(&mut self, row: usize) -> &mut [f32] {
        &mut self.values[row * self.width..][..self.width]
    }
}

/// The first `len` elements of scratch memory that only ever grows; what they hold is left over.
pub(crate) fn room<T: Copy + Default>(scratch: &mut Vec<T>, len: usize) -> &mut [T] {
    if scratch.len() < len {
        scratch.resize(len, T::default());
    }
    &mut scratch[..len]
}
