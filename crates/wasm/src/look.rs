//! When the worker looks at its messages while a chunk of a prompt is computed.

use std::{
    cell::{Cell, RefCell},
    pin::Pin,
    task::{Context, Poll, ready},
};

use js_sys::Date;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;

/// Tokens of a prompt that are computed together: these at first, and from then on as many as have no layer take more than [`LOOK`].
pub(crate) const FIRST: usize = 8;
pub(crate) const MOST: usize = 256;
/// Milliseconds.
const LOOK: f64 = 150.0;
/// Kernels take as many tokens at a time.
const MULTIPLE: usize = 4;

/// Looks during a chunk, and the times in between.
pub(crate) struct Look {
    /// What is awaited.
    looking: RefCell<Option<JsFuture>>,
    /// When the worker looked last.
    last: Cell<f64>,
    /// When the engine last had nothing to say or was heard, and the most milliseconds from there.
    begun: Cell<f64>,
    longest: Cell<f64>,
}

impl Look {
    pub(crate) fn new() -> Look {
        let now = Date::now();
        Look { looking: None.into(), last: now.into(), begun: now.into(), longest: 0.0.into() }
    }

    /// Has the worker look where it is time, by what `up` begins; ready when it has. That the worker has gone is found when the chunk
    /// ends.
    pub(crate) fn poll(&self, cx: &mut Context<'_>, up: impl FnOnce() -> Result<JsFuture, JsError>) -> Poll<()> {
        let mut looking = self.looking.borrow_mut();
        if looking.is_none() {
            self.measure();
            if Date::now() - self.last.get() < LOOK / 2.0 {
                return Poll::Ready(());
            }
            *looking = up().ok();
        }
        if let Some(looking) = &mut *looking {
            _ = ready!(Pin::new(looking).poll(cx));
        }
        *looking = None;
        self.begun.set(Date::now());
        self.last.set(self.begun.get());
        Poll::Ready(())
    }

    /// Tokens of the next chunk, after one of `size` that has been computed.
    pub(crate) fn size(&self, size: usize) -> usize {
        self.measure();
        let fitting = (size as f64 * LOOK / self.longest.get().max(1.0)) as usize / MULTIPLE * MULTIPLE;
        fitting.clamp(size / 2, 2 * size)
    }

    /// A layer, or what a device computed, has ended.
    fn measure(&self) {
        let now = Date::now();
        self.longest.set(self.longest.get().max(now - self.begun.replace(now)));
    }
}
