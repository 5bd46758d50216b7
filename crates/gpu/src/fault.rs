//! The first thing that went wrong on a device. Operations return nothing, so it waits here until somebody asks.

use std::sync::{Arc, Mutex, PoisonError};

/// Shared by all sessions of a device: an error that wgpu reports belongs to no one of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fault(Arc<Mutex<Option<String>>>);

impl Fault {
    /// Keeps `what` if it is the first.
    pub(crate) fn set(&self, what: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(what);
    }

    /// What went wrong, if something did. It stays.
    pub(crate) fn get(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
