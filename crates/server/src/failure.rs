//! Why answers end.

use std::{io, path::PathBuf};

use candor::Error;

/// Why serving, or answering a file, ended otherwise than it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum Failure<E> {
    /// The address cannot be listened at.
    #[error("{address}: {error}")]
    Address {
        /// The address.
        address: String,
        /// What the system says.
        error: io::Error,
    },
    /// A certificate or its key.
    #[error("{}: {message}", path.display())]
    Tls {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// The system gives no thread or no events.
    #[error(transparent)]
    System(#[from] io::Error),
    /// The model cannot be loaded.
    #[error("{0}")]
    Load(E),
    /// This machine computes the model wrongly.
    #[error("{0}")]
    Wrong(String),
    /// A request of a [`Batch`](crate::Batch) failed, and no fault of its own.
    #[error("{name}: {message}")]
    Request {
        /// Its name.
        name: String,
        /// What was answered.
        message: String,
    },
    /// A file of a batch.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// The model failed while it answered.
    #[error(transparent)]
    Model(#[from] Error),
    /// The thread of the model has panicked.
    #[error("the model's thread has ended: this is a bug")]
    Panicked,
}

/// What is wrong with the files of a [`Batch`](crate::Batch).
#[derive(Debug, thiserror::Error)]
pub enum BatchError {
    /// A file cannot be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// A line is no request, or no answer.
    #[error("{}, line {line}: {message}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        message: String,
    },
}
