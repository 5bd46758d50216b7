//! What can go wrong when a trace is written.

use std::{
    io,
    path::{Path, PathBuf},
};

use crate::Key;

/// Why a trace could not be written. Every message opens with the file or the value.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The file cannot be written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Values do not fill rows.
    #[error("{key}: {values} values are no rows of {width}")]
    Ragged {
        /// The value.
        key: Key,
        /// Elements given.
        values: usize,
        /// Elements per row given.
        width: usize,
    },
    /// Rows of one value differ in width.
    #[error("{key}: rows of {found}, expected {expected} as before")]
    Width {
        /// The value.
        key: Key,
        /// Elements per row before.
        expected: usize,
        /// Elements per row now.
        found: usize,
    },
    /// A row was pushed twice.
    #[error("{key}: row {row} is there twice")]
    Twice {
        /// The value.
        key: Key,
        /// The row.
        row: usize,
    },
    /// The file holds complete exact values, and this is not one.
    #[error("{key}: not every element is known exactly, a trace file holds nothing less")]
    Incomplete {
        /// The value.
        key: Key,
    },
}

impl WriteError {
    pub(super) fn io(path: &Path) -> impl FnOnce(io::Error) -> WriteError {
        let path = path.to_owned();
        move |source| WriteError::Io { path, source }
    }
}
