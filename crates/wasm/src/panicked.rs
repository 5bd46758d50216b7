//! What a panic says. It ends the instance: the worker asks for the text and goes with it.

use std::sync::{Mutex, PoisonError};

use wasm_bindgen::prelude::*;

static TEXT: Mutex<Option<String>> = Mutex::new(None);

/// Keeps what a panic says from now on.
#[wasm_bindgen(start)]
pub fn keep() {
    std::panic::set_hook(Box::new(|info| {
        *TEXT.lock().unwrap_or_else(PoisonError::into_inner) = Some(info.to_string());
    }));
}

/// What the panic said that ended this instance; nothing where it was something else.
#[wasm_bindgen]
pub fn panicked() -> Option<String> {
    TEXT.lock().unwrap_or_else(PoisonError::into_inner).clone()
}
