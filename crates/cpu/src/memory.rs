//! Large memory: where it begins and what pages back it.

use crate::system::advise_huge;

/// Bytes of a cache line.
const LINE: usize = 64;

/// The pages to ask for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pages {
    /// What the system gives.
    Usual,
    /// Huge ones, where memory is large enough.
    Huge,
}

/// `len` zeros. The system gives them when they are first touched.
pub(crate) fn zeros<T: Copy + Default>(len: usize, pages: Pages) -> Vec<T> {
    let mut values = vec![T::default(); len];
    if pages == Pages::Huge {
        advise_huge(&mut values);
    }
    values
}

/// Bytes from a cache line on that are zero in the beginning.
pub(crate) struct Zeroed {
    /// A little more than was asked for: an aligned allocation would be cleared by hand, page by page.
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Zeroed {
    pub(crate) fn new(len: usize, pages: Pages) -> Zeroed {
        let bytes: Vec<u8> = zeros(len + LINE, pages);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zero_and_begins_on_a_line() {
        for pages in [Pages::Usual, Pages::Huge] {
            // Where it is large enough for huge pages the system is asked for them, which Miri is not.
            for len in [0, 1, 100, if cfg!(miri) { 5 << 10 } else { 5 << 20 }] {
                let mut memory = Zeroed::new(len, pages);
                assert_eq!(memory.get().len(), len);
                assert!(memory.get().as_ptr().addr().is_multiple_of(LINE) || len == 0);
                assert!(memory.get().iter().all(|&byte| byte == 0));
                memory.get_mut().fill(7);
                assert!(memory.get().iter().all(|&byte| byte == 7));
            }
        }
    }

    /// Memory of this process that has huge pages, in KiB.
    #[cfg(target_os = "linux")]
    fn huge() -> u64 {
        let text = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("AnonHugePages:"));
        line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok()).unwrap_or(0)
    }

    /// Where the system has none at all there is nothing to see, and the flag is refused.
    #[cfg(target_os = "linux")]
    #[test]
    #[cfg_attr(miri, ignore = "asks the system for huge pages, which Miri has none of")]
    fn huge_pages_come_where_they_are_asked_for() {
        if crate::huge_pages().is_err() {
            return;
        }
        let before = huge();
        let mut memory = Zeroed::new(64 << 20, Pages::Huge);
        memory.get_mut().fill(1);
        // A busy machine may have few free ones.
        assert!(huge() >= before + (8 << 10), "{before} KiB before, {} KiB after", huge());
    }
}
