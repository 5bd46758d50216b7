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
    /// The same rows for products that take them rounded, where a kernel has left them so.
    pub(crate) beside: Option<Beside>,
}

/// Rows rounded to bytes, beside a buffer that they are of.
#[derive(Debug)]
pub(crate) struct Beside {
    pub(crate) storage: Arc<Storage>,
    /// The writes to that buffer after which they were right. Any further one makes them worthless.
    pub(crate) writes: Option<u64>,
}

impl Buf {
    /// A buffer whose rows are in a storage.
    pub(crate) fn of(storage: Storage, [rows, decoding]: [usize; 2], width: usize) -> Buf {
        Buf { storage, rows, decoding, width, stride: Buf::stride_of(width), beside: None }
    }

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

    /// `vec4`s from row to row of the rounded rows: a run is one of bytes, and half a one of factors.
    pub(crate) fn rounded_stride(&self) -> usize {
        let runs = self.stride.div_ceil(RUN);
        runs + runs.div_ceil(2)
    }

    /// Says whether what was recorded last has left the rows rounded in the room beside them.
    pub(crate) fn round(&mut self, has: bool) {
        if let Some(beside) = &mut self.beside {
            beside.writes = has.then(|| self.storage.writes());
        }
    }

    /// The rounded rows, where a kernel has left them and nothing was written since.
    pub(crate) fn rounded(&self) -> Option<&Arc<Storage>> {
        let beside = self.beside.as_ref()?;
        (beside.writes == Some(self.storage.writes())).then_some(&beside.storage)
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
