//! Memory that this process was given and has not touched yet: the system still counts it as free.

use std::sync::atomic::{AtomicU64, Ordering};

static PROMISED: AtomicU64 = AtomicU64::new(0);

/// Bytes that were promised to somebody, for as long as this lives.
pub(crate) struct Promise(u64);

impl Promise {
    pub(crate) fn new(bytes: u64) -> Promise {
        PROMISED.fetch_add(bytes, Ordering::Relaxed);
        Promise(bytes)
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        PROMISED.fetch_sub(self.0, Ordering::Relaxed);
    }
}

/// At least that many bytes of what was promised are still to be touched, where this process has touched `touched` in all.
pub(super) fn untouched(touched: u64) -> u64 {
    PROMISED.load(Ordering::Relaxed).saturating_sub(touched)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sessions of other tests promise far less.
    #[test]
    fn promises_last_as_long_as_they_live() {
        const MUCH: u64 = 1 << 50;
        let promise = Promise::new(MUCH);
        assert!(untouched(1 << 40) >= MUCH - (1 << 40));
        drop(promise);
        assert!(untouched(0) < MUCH);
    }
}
