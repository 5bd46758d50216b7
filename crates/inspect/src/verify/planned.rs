//! A plan's run on whatever backend options choose, and how long one may be.

use candor::{BackendVisitor, Gguf, Ops};
use candor_verify::{Operations, Plan, operations};

/// Longest prompt: the oracle computes every operation of it in f64.
pub const MAX_PROMPT: usize = 4096;
/// Most tokens decoded, likewise.
pub const MAX_DECODE: usize = 1024;

/// [`operations`] on the backend that options choose.
pub(super) struct Planned<'a> {
    pub(super) gguf: &'a Gguf,
    pub(super) plan: Plan<'a>,
}

impl BackendVisitor for Planned<'_> {
    type Output = Result<Operations, candor_models::Error>;

    fn visit<B>(self, ops: B, _: String) -> Self::Output
    where
        B: Ops<Weight: Send + Sync, Buf: Send, Kv: Send, Snapshot: Send, Rope: Send + Sync, Routes: Send>
            + Clone
            + Send
            + Sync
            + 'static,
    {
        operations(self.gguf, ops, &self.plan)
    }
}
