//! Threads, in a module whose memory is shared. WebAssembly starts none: workers of the page come here and wait for work.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use candor::{Join, Spawn, Work};
use wasm_bindgen::prelude::*;

/// Takes a thread that waits.
pub(crate) const CREW: Spawn = Spawn(hand_over);

static WAITING: Mutex<Waiting> = Mutex::new(Waiting { threads: 0, work: Vec::new() });
static CALL: Condvar = Condvar::new();

struct Waiting {
    /// Those that no work is meant for.
    threads: usize,
    work: Vec<Work>,
}

/// Threads that wait.
#[wasm_bindgen]
pub fn waiting() -> usize {
    change(|waiting| waiting.threads)
}

/// Counts the calling thread among them, which calls [`work`] next.
#[wasm_bindgen]
pub fn enlist() {
    change(|waiting| waiting.threads += 1);
}

/// Works, one piece after the other, for ever.
#[wasm_bindgen]
pub fn work() {
    loop {
        let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
        let work = loop {
            match waiting.work.pop() {
                Some(work) => break work,
                None => waiting = CALL.wait(waiting).unwrap_or_else(PoisonError::into_inner),
            }
        };
        drop(waiting);
        work();
        enlist();
    }
}

fn change<T>(how: impl FnOnce(&mut Waiting) -> T) -> T {
    how(&mut WAITING.lock().unwrap_or_else(PoisonError::into_inner))
}

fn hand_over(_number: usize, work: Work) -> Option<Join> {
    let done = Arc::new((Mutex::new(false), Condvar::new()));
    let theirs = Arc::clone(&done);
    let work = Box::new(move || {
        work();
        *theirs.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        theirs.1.notify_all();
    });
    change(|waiting| {
        waiting.threads = waiting.threads.checked_sub(1)?;
        waiting.work.push(work);
        Some(())
    })?;
    CALL.notify_one();
    Some(Box::new(move || {
        let is_done = done.0.lock().unwrap_or_else(PoisonError::into_inner);
        drop(done.1.wait_while(is_done, |is_done| !*is_done).unwrap_or_else(PoisonError::into_inner));
    }))
}
