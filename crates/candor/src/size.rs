//! Bytes for people.

use std::fmt;

/// Bytes for people: `640 MB`, `7.8 GB`.
pub(crate) struct Size(pub(crate) u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 as f64 {
            bytes if bytes >= 999.5e6 => write!(f, "{:.1} GB", bytes / 1e9),
            bytes if bytes >= 1e6 => write!(f, "{:.0} MB", bytes / 1e6),
            bytes => write!(f, "{:.2} MB", bytes / 1e6),
        }
    }
}
