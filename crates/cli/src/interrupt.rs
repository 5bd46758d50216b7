//! Ctrl-C: while the model answers it stops the answer, at any other time the program, which first takes back what it would
//! leave behind. Not the key of the line editor, which sees it itself.

use std::{
    collections::BTreeMap,
    fs,
    path::PathBuf,
    process,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use candor::Cancel;

use crate::errors::Error;

/// The exit code of a program that Ctrl-C stopped, by the shells' convention.
pub const EXIT_CODE: u8 = 130;

/// The catcher of Ctrl-C.
#[derive(Clone)]
pub struct Interrupt {
    cancel: Arc<AtomicBool>,
    answering: Arc<AtomicBool>,
}

/// While it lives, Ctrl-C stops the answer.
pub struct Answering<'i>(&'i Interrupt);

/// The one that catches, once there is one: a program has one handler.
static CAUGHT: OnceLock<Interrupt> = OnceLock::new();

impl Interrupt {
    /// Begins to catch. From now on the first Ctrl-C during an answer stops that, any other the program.
    pub fn catch() -> Result<Interrupt, Error> {
        if let Some(interrupt) = CAUGHT.get() {
            return Ok(interrupt.clone());
        }
        let interrupt = Interrupt { cancel: Arc::default(), answering: Arc::default() };
        let Interrupt { cancel, answering } = interrupt.clone();
        ctrlc::set_handler(move || {
            if !answering.load(Ordering::SeqCst) || cancel.swap(true, Ordering::SeqCst) {
                leave();
            }
        })
        .map_err(Error::Interrupt)?;
        Ok(CAUGHT.get_or_init(|| interrupt).clone())
    }

    /// An answer begins.
    pub fn answering(&self) -> Answering<'_> {
        self.cancel.store(false, Ordering::SeqCst);
        self.answering.store(true, Ordering::SeqCst);
        Answering(self)
    }
}

impl Answering<'_> {
    /// What Ctrl-C sets.
    pub fn cancel(&self) -> Cancel {
        self.0.cancel.clone().into()
    }
}

impl Drop for Answering<'_> {
    fn drop(&mut self) {
        self.0.answering.store(false, Ordering::SeqCst);
    }
}

type Action = Box<dyn FnOnce() + Send>;

/// What is to be done before the program ends, in the order in which it came up.
static LEFT: Mutex<BTreeMap<u64, Action>> = Mutex::new(BTreeMap::new());

fn left() -> MutexGuard<'static, BTreeMap<u64, Action>> {
    LEFT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes something back when it is dropped, or when Ctrl-C ends the program before.
pub struct Cleanup(u64);

impl Cleanup {
    /// Has `action` done, once.
    pub fn new(action: impl FnOnce() + Send + 'static) -> Cleanup {
        let mut left = left();
        let number = left.last_key_value().map_or(0, |(last, _)| last + 1);
        left.insert(number, Box::new(action));
        Cleanup(number)
    }

    /// Removes files that are only there while others are made of them.
    pub fn of_files(paths: Vec<PathBuf>) -> Cleanup {
        Cleanup::new(move || {
            for path in paths {
                // Those that were made, and are not what they were to become.
                let _ = fs::remove_file(path);
            }
        })
    }
}

impl Drop for Cleanup {
    fn drop(&mut self) {
        let action = left().remove(&self.0);
        if let Some(action) = action {
            action();
        }
    }
}

/// Ends the program as Ctrl-C does.
fn leave() -> ! {
    let actions = std::mem::take(&mut *left());
    actions.into_values().rev().for_each(|action| action());
    process::exit(EXIT_CODE.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_taken_back_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("partial");
        fs::write(&path, "x").unwrap();
        let cleanup = Cleanup::of_files(vec![path.clone(), folder.path().join("never made")]);
        assert!(path.exists());
        drop(cleanup);
        assert!(!path.exists());
    }
}
