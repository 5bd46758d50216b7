//! Ending work early, from the page.

use candor::Cancel;
use wasm_bindgen::prelude::*;

/// The page's way to end a piece of work. It is no part of the engine, which is lent to the work meanwhile.
#[wasm_bindgen]
#[derive(Default)]
pub struct Stop {
    pub(crate) cancel: Cancel,
}

#[wasm_bindgen]
impl Stop {
    /// Not stopped yet.
    #[wasm_bindgen(constructor)]
    pub fn new() -> Stop {
        Stop::default()
    }

    /// Whether it was.
    #[wasm_bindgen(getter)]
    pub fn stopped(&self) -> bool {
        self.cancel.is_cancelled()
    }

    /// Ends the work, for good.
    pub fn stop(&self) {
        self.cancel.cancel();
    }
}
