//! Activations on the device, and copies of them that wait to be read.

use std::sync::Arc;

use crate::asked::Asked;
use crate::device::Storage;
use crate::format::RUN;

/// Activations, `[rows, width]`. Rows are filled up with zeros to whole runs of 16, which every operation leaves zero,
/// so that products need not ask where a row ends.
#[derive(Debug)]
pub struct Buf {
    pub(crate) storage: Storage,
    /// Rows in flight.
    pub(crate) rows: usize,
    /// How many of the last of them decode.
    pub(crate) decoding: usize,
    pub(crate) width: usize,
    /// Elements from row to row.
    pub(crate) stride: usize,
}

impl Buf {
    /// Has as many rows of each kind as another.
    pub(crate) fn like(&mut self, other: &Buf) {
        (self.rows, self.decoding) = (other.rows, other.decoding);
    }

    /// Rows of prompts, which come before those that decode.
    pub(crate) fn prefill(&self) -> usize {
        self.rows - self.decoding
    }

    pub(crate) fn stride_of(width: usize) -> usize {
        width.next_multiple_of(RUN)
    }

    /// `vec4`s from row to row.
    pub(crate) fn quads(&self) -> u32 {
        (self.stride / 4) as u32
    }
}

/// A copy of a buffer's rows, without what fills them up; or of another's words.
#[derive(Debug)]
pub struct Snapshot {
    pub(crate) storage: Arc<Storage>,
    /// Words.
    pub(crate) len: usize,
    /// The read of it that is under way, where reads are awaited.
    pub(crate) asked: Option<Asked>,
}

impl Snapshot {
    pub(crate) fn new(storage: Arc<Storage>, len: usize) -> Snapshot {
        Snapshot { storage, len, asked: None }
    }

    pub(crate) fn bytes(&self) -> u64 {
        4 * self.len as u64
    }
}

/// Buffers of copies that nobody holds any more.
#[derive(Debug, Default)]
pub(crate) struct Pool(pub(crate) Vec<Arc<Storage>>);
