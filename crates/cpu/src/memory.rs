//! Large memory that begins on a cache line.

/// Bytes of a cache line.
const LINE: usize = 64;

/// Bytes that are zero in the beginning. The system gives them when they are first touched.
pub(crate) struct Zeroed {
    /// A little more than was asked for: an aligned allocation would be cleared by hand, page by page.
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Zeroed {
    pub(crate) fn new(len: usize) -> Zeroed {
        let bytes = vec![0; len + LINE];
        let start = bytes.as_ptr().align_offset(LINE).min(LINE);
        Zeroed { bytes, start, len }
    }

    pub(crate) fn get(&self) -> &[u8] {
        &self.bytes[self.start..][..self.len]
    }

    pub(crate) fn get_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..][..self.len]
    }
}
