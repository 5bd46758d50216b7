//! A sign of life on stderr for what cannot be said to end at some time: a spinner with the time since. It draws nothing where
//! stderr is no terminal.

use std::{
    io::{self, IsTerminal},
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread::{self, JoinHandle},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::{args::When, bar::AFTER, interrupt::Cleanup};

/// How often it turns.
const TURN: Duration = Duration::from_millis(120);

/// A spinner that comes when it is due, and goes when it is dropped.
pub struct Waiting(Option<Shown>);

struct Shown {
    bar: ProgressBar,
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    /// Ctrl-C leaves no half line behind.
    _cleanup: Cleanup,
}

/// Says how far the work is that is waited for.
#[derive(Clone)]
pub struct Mark(Option<ProgressBar>);

impl Waiting {
    /// A spinner beside `doing`, from now on.
    pub fn new(when: When, doing: &str) -> Waiting {
        Waiting::with(when, &format!("{{spinner}} {doing}, {{elapsed}}"))
    }

    /// A spinner beside how many of the tokens are done, from now on.
    pub fn for_tokens(when: When, doing: &str) -> Waiting {
        Waiting::with(when, &format!("{{spinner}} {doing}: {{pos}} of {{len}} tokens, {{elapsed}}"))
    }

    fn with(when: When, template: &str) -> Waiting {
        if when == When::Never || !io::stderr().is_terminal() {
            return Waiting(None);
        }
        let style = ProgressStyle::with_template(template);
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::hidden());
        let bar = bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        let after = if when == When::Always { Duration::ZERO } else { AFTER };
        let (end, ended) = mpsc::channel();
        let due = bar.clone();
        let thread = thread::Builder::new().name("waiting".to_owned()).spawn(move || {
            if ended.recv_timeout(after) == Err(RecvTimeoutError::Timeout) {
                due.set_draw_target(ProgressDrawTarget::stderr());
                due.tick();
                due.enable_steady_tick(TURN);
            }
        });
        // A machine that gives no thread goes without.
        let Ok(thread) = thread else { return Waiting(None) };
        let cleared = bar.clone();
        let cleanup = Cleanup::new(move || cleared.finish_and_clear());
        Waiting(Some(Shown { bar, end: Some(end), thread: Some(thread), _cleanup: cleanup }))
    }

    /// What says how far it is, from any thread.
    pub fn mark(&self) -> Mark {
        Mark(self.0.as_ref().map(|shown| shown.bar.clone()))
    }
}

impl Mark {
    /// So much is done.
    pub fn set(&self, done: usize, total: usize) {
        if let Some(bar) = &self.0 {
            bar.set_length(total as u64);
            bar.set_position(done as u64);
        }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        // The thread ends at once, and has shown the spinner or never will.
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.bar.finish_and_clear();
    }
}
