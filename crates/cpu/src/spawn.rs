//! Where the pool's threads come from.

use std::thread;

/// What a thread of the pool does, until the pool is dropped.
pub type Work = Box<dyn FnOnce() + Send>;

/// Waits until a thread has done its [`Work`].
pub type Join = Box<dyn FnOnce() + Send + Sync>;

/// How the pool gets a thread, by its number from 1 on, or learns that no more are to be had. By default the system starts it.
/// WebAssembly starts none: there the page's program has workers wait for work and hands it to them.
#[derive(Clone, Copy, Debug)]
pub struct Spawn(pub fn(usize, Work) -> Option<Join>);

impl Default for Spawn {
    fn default() -> Self {
        Spawn(start)
    }
}

fn start(number: usize, work: Work) -> Option<Join> {
    let thread = thread::Builder::new().name(format!("candor-{number}")).spawn(work).ok()?;
    // A worker catches the panics of its pieces, so there is nothing to hear from it.
    Some(Box::new(move || _ = thread.join()))
}
