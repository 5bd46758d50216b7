//! How far the reading of a prompt is, for who waits for it.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use crate::Cancel;

/// Hears how far the reading of a prompt is: how many of its tokens are computed, and how many are to be. It is called before
/// every step over the weights, and at the end.
///
/// ```
/// use candor::Progress;
///
/// Progress::new(|done, total| eprintln!("{done} of {total} tokens"));
/// ```
#[derive(Clone)]
pub struct Progress(Arc<dyn Fn(usize, usize) + Send + Sync>);

impl Progress {
    /// Has `hear` hear it.
    pub fn new(hear: impl Fn(usize, usize) + Send + Sync + 'static) -> Progress {
        Progress(Arc::new(hear))
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Progress")
    }
}

/// Lets others have the thread in the middle of a step: polled between layers until it is ready, with how many of the step's are
/// done and how many there are.
pub type Pause<'a> = dyn Fn(usize, usize, &mut Context<'_>) -> Poll<()> + 'a;

/// What ends the reading of tokens early, who hears how far it is, and who may have the thread meanwhile.
#[derive(Clone, Copy)]
pub(crate) struct Until<'a> {
    pub(crate) cancel: &'a Cancel,
    pub(crate) progress: Option<&'a Progress>,
    pub(crate) pause: Option<&'a Pause<'a>>,
}

impl Until<'_> {
    /// Says how far it is.
    pub(crate) fn at(&self, done: usize, total: usize) {
        if let Some(Progress(hear)) = self.progress {
            hear(done, total);
        }
    }
}

impl<'a> From<&'a Cancel> for Until<'a> {
    fn from(cancel: &'a Cancel) -> Until<'a> {
        Until { cancel, progress: None, pause: None }
    }
}
