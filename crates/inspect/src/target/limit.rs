//! How large a file may be.

use std::fmt;

/// How large a file may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// Its bytes, with the metadata.
    File(u64),
    /// Bits for each weight, of tensors alone.
    Bits(f64),
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Limit::File(bytes) => write!(f, "{bytes} bytes"),
            // What is printed can be asked for.
            Limit::Bits(bits) => write!(f, "{:.3} bits per weight", (bits * 1000.0).ceil() / 1000.0),
        }
    }
}
