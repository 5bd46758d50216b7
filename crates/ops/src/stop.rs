//! The end of a step before its time: what a backend may ask while it computes.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// A flag that ends a step. Clones share what was seen of it.
#[derive(Clone, Debug)]
pub struct Stop {
    flag: Arc<AtomicBool>,
    seen: Arc<AtomicBool>,
}

impl Stop {
    /// Due as soon as `flag` is set, and from then on.
    pub fn at(flag: Arc<AtomicBool>) -> Stop {
        Stop { flag, seen: Arc::default() }
    }

    /// Whether to compute no further.
    pub fn is_due(&self) -> bool {
        if self.flag.load(Ordering::Relaxed) {
            self.seen.store(true, Ordering::Relaxed);
        }
        self.was_seen()
    }

    /// Whether anything that asked was to stop, so that what was computed since is not to be used.
    pub fn was_seen(&self) -> bool {
        self.seen.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_due_once_stays_due() {
        let flag = Arc::new(AtomicBool::new(false));
        let stop = Stop::at(flag.clone());
        let other = stop.clone();
        assert!(!stop.is_due() && !other.was_seen());
        flag.store(true, Ordering::Relaxed);
        assert!(!stop.was_seen() && stop.is_due());
        flag.store(false, Ordering::Relaxed);
        assert!(other.is_due() && other.was_seen());
    }
}
