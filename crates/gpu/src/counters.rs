//! What a session has asked of its device so far, and what this process holds on devices.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Sums over a session's life; every clone of a [`crate::Gpu`] begins at zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Command buffers handed to the queue.
    pub submits: u64,
    /// Compute passes.
    pub passes: u64,
    /// Dispatches in them.
    pub dispatches: u64,
    /// Bytes copied back to the host.
    pub bytes_read: u64,
    /// Buffers made, those of weights and constants included.
    pub buffers: u64,
    /// Bind groups made.
    pub bind_groups: u64,
}

/// Buffers on all devices that this process holds: weights, caches, activations, constants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// How many.
    pub buffers: u64,
    /// Their bytes.
    pub bytes: u64,
}

static BUFFERS: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);

/// What this process holds on devices now.
pub fn held() -> Held {
    Held { buffers: BUFFERS.load(Ordering::Relaxed), bytes: BYTES.load(Ordering::Relaxed) }
}

/// A buffer's entry in the sum, until the last one who holds it lets go.
#[derive(Debug)]
pub(crate) struct Account {
    bytes: u64,
}

impl Account {
    pub(crate) fn open(bytes: u64) -> Arc<Account> {
        BUFFERS.fetch_add(1, Ordering::Relaxed);
        BYTES.fetch_add(bytes, Ordering::Relaxed);
        Arc::new(Account { bytes })
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        BUFFERS.fetch_sub(1, Ordering::Relaxed);
        BYTES.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
