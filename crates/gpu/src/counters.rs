//! What a session has asked of its device so far.

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
