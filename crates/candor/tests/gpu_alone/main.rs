//! Tests that have the GPU to themselves: they count its memory, which is counted by process, or lose it. Skipped where there
//! is no adapter, a software one (lavapipe) included.
#![cfg(feature = "gpu")]

mod budget;
mod interleavings;
mod lost;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Held for as long as a test runs; `None` where there is no adapter.
fn alone() -> Option<MutexGuard<'static, ()>> {
    static ALONE: Mutex<()> = Mutex::new(());
    candor_testing::has_gpu(candor_gpu::adapters().len()).then(|| ALONE.lock().unwrap_or_else(PoisonError::into_inner))
}
