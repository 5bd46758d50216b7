//! Making mapped files ready by several threads, before anyone waits for a token.

use crate::map::Mapping;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::thread;

/// Bytes that a thread takes at a time.
const PIECE_BYTES: usize = 16 << 20;

/// More threads only wait for the same disk, or the same lock of the page table.
const MAX_THREADS: usize = 4;

/// Populates the mappings piece by piece, in order; `progress` sees bytes done and in all.
pub(crate) fn prefault(mappings: &[Mapping], mut progress: impl FnMut(u64, u64)) {
    let pieces: Vec<(&Mapping, Range<usize>)> = mappings.iter().flat_map(pieces).collect();
    let total = pieces.iter().map(|(_, bytes)| bytes.len() as u64).sum();
    let (next, done) = (AtomicUsize::new(0), AtomicU64::new(0));
    let take = || {
        let (mapping, bytes) = pieces.get(next.fetch_add(1, Relaxed))?;
        mapping.populate(bytes.clone());
        Some(done.fetch_add(bytes.len() as u64, Relaxed) + bytes.len() as u64)
    };
    let threads = thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS).min(pieces.len());
    thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(|| while take().is_some() {});
        }
        while let Some(done) = take() {
            progress(done, total);
        }
    });
    if total > 0 {
        progress(total, total);
    }
}

fn pieces(mapping: &Mapping) -> impl Iterator<Item = (&Mapping, Range<usize>)> {
    let bytes = mapping.as_ref().len();
    (0..bytes).step_by(PIECE_BYTES).map(move |start| (mapping, start..bytes.min(start + PIECE_BYTES)))
}
