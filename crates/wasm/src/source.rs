//! A file that JavaScript reads: a `Blob` in a worker, or a file of Node. Reads are synchronous, and of the piece that is wanted.

use std::io;

use send_wrapper::SendWrapper;
use wasm_bindgen::prelude::*;

#[wasm_bindgen]
extern "C" {
    /// `{ size, read(offset, into) }`: bytes in all, and what fills `into` from `offset` on or throws.
    pub type JsSource;

    #[wasm_bindgen(method, getter)]
    fn size(this: &JsSource) -> f64;

    #[wasm_bindgen(method, catch)]
    fn read(this: &JsSource, offset: f64, into: &mut [u8]) -> Result<(), JsValue>;
}

/// The same for the engine, which asks for what threads may share: there is one thread, and the wrapper sees to it.
pub(crate) struct Source(SendWrapper<JsSource>);

impl Source {
    pub(crate) fn new(source: JsSource) -> Source {
        Source(SendWrapper::new(source))
    }
}

impl candor::Source for Source {
    fn bytes(&self) -> u64 {
        self.0.size() as u64
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.0.read(offset as f64, into).map_err(|error| {
            let error = error.dyn_into::<js_sys::Error>();
            io::Error::other(error.map_or_else(|_| "unknown error".to_owned(), |error| String::from(error.message())))
        })
    }
}
