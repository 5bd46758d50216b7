//! How long a run may be whose every operation is computed once more in f64.

/// Longest prompt.
pub const MAX_PROMPT: usize = 4096;
/// Most tokens decoded.
pub const MAX_DECODE: usize = 1024;
