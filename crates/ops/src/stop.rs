//! The end of a step before its time: what a backend may ask while it computes.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// A condition that ends a step. Clones share what was seen of it.
#[derive(Clone)]
pub struct Stop {
    condition: Arc<dyn Fn() -> bool + Send + Sync>,
    seen: Arc<AtomicBool>,
}

impl Stop {
    /// Due as soon as `condition` holds, and from then on.
    pub fn when(condition: impl Fn() -> bool + Send + Sync + 'static) -> Stop {
        Stop { condition: Arc::new(condition), seen: Arc::default() }
    }

    /// Whether to compute no further.
    pub fn is_due(&self) -> bool {
        if !self.was_seen() && (self.condition)() {
            self.seen.store(true, Ordering::Relaxed);
        }
        self.was_seen()
    }

    /// Whether anything that asked was told to stop, so that what was computed since is not to be used.
    pub fn was_seen(&self) -> bool {
        self.seen.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stop").field("seen", &self.seen).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_due_once_stays_due() {
        let flag = Arc::new(AtomicBool::new(false));
        let stop = Stop::when({
            let flag = flag.clone();
            move || flag.load(Ordering::Relaxed)
        });
        let other = stop.clone();
        assert!(!stop.is_due() && !other.was_seen());
        flag.store(true, Ordering::Relaxed);
        assert!(!stop.was_seen() && stop.is_due());
        flag.store(false, Ordering::Relaxed);
        assert!(other.is_due() && other.was_seen());
    }
}
