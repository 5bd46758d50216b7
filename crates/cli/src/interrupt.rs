//! Ctrl-C: while the model answers it stops the answer, at any other time the program. Not the key of the line editor,
//! which sees it itself.

use std::{
    process,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use candor::Cancel;

use crate::errors::Error;

/// The exit code of a program that Ctrl-C stopped, by the shells' convention.
pub const EXIT_CODE: u8 = 130;

/// The catcher of Ctrl-C.
pub struct Interrupt {
    cancel: Arc<AtomicBool>,
    answering: Arc<AtomicBool>,
}

/// While it lives, Ctrl-C stops the answer.
pub struct Answering<'i>(&'i Interrupt);

impl Interrupt {
    /// Begins to catch. From now on the first Ctrl-C during an answer stops that, any other the program.
    pub fn catch() -> Result<Interrupt, Error> {
        let cancel = Arc::new(AtomicBool::new(false));
        let answering = Arc::new(AtomicBool::new(false));
        let (cancelled, answers) = (cancel.clone(), answering.clone());
        ctrlc::set_handler(move || {
            if !answers.load(Ordering::SeqCst) || cancelled.swap(true, Ordering::SeqCst) {
                process::exit(EXIT_CODE.into());
            }
        })
        .map_err(Error::Interrupt)?;
        Ok(Interrupt { cancel, answering })
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
