//! Pieces that several threads make and one takes, in order. What was made and not taken yet is bounded.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::Error;

/// The pieces of a file.
pub(crate) struct Pieces {
    state: Mutex<State>,
    changed: Condvar,
    total: usize,
    /// The most that lie between the first that was not taken and the last that was begun.
    ahead: usize,
}

#[derive(Default)]
struct State {
    begun: usize,
    taken: usize,
    made: BTreeMap<usize, Vec<u8>>,
    failed: Option<Error>,
    over: bool,
}

impl Pieces {
    pub(crate) fn new(total: usize, ahead: usize) -> Pieces {
        Pieces { state: Mutex::default(), changed: Condvar::new(), total, ahead: ahead.max(1) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'s>(&self, state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes pieces, the next that nobody began, until all are begun or it is over.
    pub(crate) fn work(&self, mut make: impl FnMut(usize) -> Result<Vec<u8>, Error>) {
        // A thread that panics makes no piece: who waits for it must not wait on.
        let _end = OnPanic(self);
        loop {
            let mut state = self.state();
            while !state.over && state.begun < self.total && state.begun >= state.taken + self.ahead {
                state = self.wait(state);
            }
            if state.over || state.begun == self.total {
                return;
            }
            let number = state.begun;
            state.begun += 1;
            drop(state);
            let made = make(number);
            let mut state = self.state();
            match made {
                Ok(piece) => drop(state.made.insert(number, piece)),
                Err(error) => {
                    state.failed.get_or_insert(error);
                    state.over = true;
                }
            }
            self.changed.notify_all();
        }
    }

    /// The next piece; `None` if one failed or it is over.
    pub(crate) fn take(&self) -> Option<Vec<u8>> {
        let mut state = self.state();
        loop {
            if state.over {
                return None;
            }
            let next = state.taken;
            if let Some(piece) = state.made.remove(&next) {
                state.taken += 1;
                self.changed.notify_all();
                return Some(piece);
            }
            state = self.wait(state);
        }
    }

    /// Ends it, with the reason if there is one.
    pub(crate) fn end(&self, error: Option<Error>) {
        let mut state = self.state();
        state.over = true;
        if let Some(error) = error {
            state.failed.get_or_insert(error);
        }
        self.changed.notify_all();
    }

    /// Why it ended before its end.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.state().failed.take()
    }
}

struct OnPanic<'p>(&'p Pieces);

impl Drop for OnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.end(None);
        }
    }
}
