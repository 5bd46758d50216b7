//! Ending work early, from another thread or after a time.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use candor_ops::Stop;

/// Ends work early: the only way in which anything here is cancelled. Clones share one flag.
///
/// Before every step over the weights [`Session::generate`](crate::Session::generate), a
/// [`Continuation`](crate::Continuation) and the methods named `evaluate_until` ask it. A step on the processor ends early where
/// [`Cancel::cancel`] or a flag of others cancels it; what a condition says, and a GPU, end none. Being cancelled is no error: a generation ends with
/// [`StopReason::Cancelled`](crate::StopReason::Cancelled), `evaluate_until` gives `false`, and the session stays after
/// what was done and can go on.
///
/// ```
/// use candor::Cancel;
///
/// let cancel = Cancel::new();
/// let elsewhere = cancel.clone();
/// std::thread::spawn(move || elsewhere.cancel()).join().unwrap();
/// assert!(cancel.is_cancelled());
///
/// let deadline = std::time::Instant::now();
/// assert!(Cancel::when(move || std::time::Instant::now() >= deadline).is_cancelled());
/// ```
#[derive(Clone, Default)]
pub struct Cancel {
    flag: Arc<AtomicBool>,
    condition: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
}

impl Cancel {
    /// Not cancelled yet.
    pub fn new() -> Cancel {
        Cancel::default()
    }

    /// Cancelled as soon as `condition` holds at a step, or by [`Cancel::cancel`]: a deadline, a closed connection.
    pub fn when(condition: impl Fn() -> bool + Send + Sync + 'static) -> Cancel {
        Cancel { condition: Some(Arc::new(condition)), ..Cancel::default() }
    }

    /// Cancels all that was given this or a clone of it, for good.
    pub fn cancel(&self) {
        self.flag.store(true, Ordering::Relaxed);
    }

    /// What ends a step in its middle: the flag without the condition.
    pub(crate) fn stop(&self) -> Stop {
        Stop::at(self.flag.clone())
    }

    /// The same where nobody asks the condition: it is asked once for each step.
    pub(crate) fn flag(&self) -> Cancel {
        self.flag.clone().into()
    }

    /// Whether it is cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.flag.load(Ordering::Relaxed) || self.condition.as_ref().is_some_and(|condition| condition())
    }
}

/// A flag that others set, such as a handler of signals: `true` cancels.
impl From<Arc<AtomicBool>> for Cancel {
    fn from(flag: Arc<AtomicBool>) -> Cancel {
        Cancel { flag, condition: None }
    }
}

impl fmt::Debug for Cancel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cancel").field("flag", &self.flag).finish_non_exhaustive()
    }
}
