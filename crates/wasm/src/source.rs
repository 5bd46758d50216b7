//! A file that JavaScript reads: a `Blob` in a worker, or a file of Node. Reads are synchronous, and of the piece that is wanted.

use std::{io, sync::Arc};

use candor::Gguf;
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
struct Source(SendWrapper<JsSource>);

/// The file of a source. An error of the file itself has a name by which the page tells it from others, and the file's number.
pub(crate) fn opened(source: JsSource, number: usize) -> Result<Gguf, JsValue> {
    Gguf::from_source(Arc::new(Source(SendWrapper::new(source)))).map_err(|error| {
        let error = js_sys::Error::new(&error.to_string());
        error.set_name("GgufError");
        // An error is an object that takes any field.
        let _ = js_sys::Reflect::set(&error, &"file".into(), &(number as f64).into());
        error.into()
    })
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
