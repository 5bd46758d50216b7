//! SHA-256 of a file that comes in pieces: browsers hash only what is in memory as a whole.

use sha2::{Digest, Sha256};
use wasm_bindgen::prelude::*;

/// A hash that grows.
#[wasm_bindgen]
#[derive(Default)]
pub struct Hash(Sha256);

#[wasm_bindgen]
impl Hash {
    /// Of nothing yet.
    #[wasm_bindgen(constructor)]
    pub fn new() -> Hash {
        Hash::default()
    }

    /// Adds a piece.
    pub fn update(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    /// The hash of all pieces in lower-case hexadecimal digits.
    pub fn hex(&self) -> String {
        self.0.clone().finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
