//! A file that JavaScript reads: a `Blob` in a worker, or a file of Node. Reads are synchronous, and of the piece that is wanted.
//! What is expected comes meanwhile.

use std::{
    cell::{Cell, RefCell},
    future::Future,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use candor::Gguf;
use js_sys::{Date, Promise};
use send_wrapper::SendWrapper;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;

#[wasm_bindgen]
extern "C" {
    /// `{ size, read(offset, into), expect(offset, bytes) }`: bytes in all, what fills `into` from `offset` on or throws, and what
    /// promises that a piece is there, or cannot be had.
    pub type JsSource;

    #[wasm_bindgen(method, getter)]
    fn size(this: &JsSource) -> f64;

    #[wasm_bindgen(method, catch)]
    fn read(this: &JsSource, offset: f64, into: &mut [u8]) -> Result<(), JsValue>;

    #[wasm_bindgen(method)]
    fn expect(this: &JsSource, offset: f64, bytes: f64) -> Promise;
}

/// The same for the engine, which asks for what threads may share: one thread reads, and the wrapper sees to it.
pub(crate) struct Source(SendWrapper<Inner>);

struct Inner {
    js: JsSource,
    expected: RefCell<Vec<JsFuture>>,
    /// When somebody began to wait for them.
    since: Cell<Option<f64>>,
    read: Cell<Read>,
}

/// What was read so far.
#[derive(Clone, Copy, Default)]
pub(crate) struct Read {
    pub(crate) bytes: f64,
    /// Milliseconds that nothing was computed in.
    pub(crate) waited: f64,
}

impl Source {
    pub(crate) fn new(js: JsSource) -> Arc<Source> {
        let (expected, since, read) = (RefCell::default(), Cell::default(), Cell::default());
        Arc::new(Source(SendWrapper::new(Inner { js, expected, since, read })))
    }

    pub(crate) fn read(&self) -> Read {
        self.0.read.get()
    }
}

impl Inner {
    fn add(&self, bytes: usize, since: f64) {
        let Read { bytes: before, waited } = self.read.get();
        self.read.set(Read { bytes: before + bytes as f64, waited: waited + Date::now() - since });
    }
}

/// The file of a source. An error of the file itself has a name by which the page tells it from others, and the file's number.
pub(crate) fn opened(source: Arc<Source>, number: usize) -> Result<Gguf, JsValue> {
    Gguf::from_source(source).map_err(|error| {
        let error = js_sys::Error::new(&error.to_string());
        error.set_name("GgufError");
        // An error is an object that takes any field.
        let _ = js_sys::Reflect::set(&error, &"file".into(), &(number as f64).into());
        error.into()
    })
}

impl candor::Source for Source {
    fn bytes(&self) -> u64 {
        self.0.js.size() as u64
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let begun = Date::now();
        let read = self.0.js.read(offset as f64, into).map_err(|error| {
            let error = error.dyn_into::<js_sys::Error>();
            io::Error::other(error.map_or_else(|_| "unknown error".to_owned(), |error| String::from(error.message())))
        });
        self.0.add(into.len(), begun);
        read
    }

    fn expect(&self, offset: u64, bytes: u64) {
        let promise = self.0.js.expect(offset as f64, bytes as f64);
        self.0.expected.borrow_mut().push(JsFuture::from(promise));
    }

    fn poll_expected(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut expected = self.0.expected.borrow_mut();
        expected.retain_mut(|piece| Pin::new(piece).poll(cx).is_pending());
        if expected.is_empty() {
            if let Some(since) = self.0.since.take() {
                self.0.add(0, since);
            }
            return Poll::Ready(());
        }
        self.0.since.set(self.0.since.get().or_else(|| Some(Date::now())));
        Poll::Pending
    }
}
