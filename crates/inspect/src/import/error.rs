//! What can be wrong with a dump.

use std::{io, path::Path, path::PathBuf};

/// Why a dump could not be read. Every message opens with the file.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The file cannot be opened or read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file breaks the rules of its format, or ends too soon.
    #[error("{}: not a sound {format} file: {reason}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The format it seemed to have.
        format: &'static str,
        /// What is broken, with what was expected.
        reason: String,
    },
    /// No reader knows what the file is.
    #[error(
        "{}: not a dump this program knows (safetensors, .npy, .npz, raw f32 .bin, llama.cpp's eval-callback text, \
         model_addition_debugger JSON, or a log with printed values)",
        path.display()
    )]
    Unrecognized {
        /// The file.
        path: PathBuf,
    },
    /// The file is a model, not what a program computed with one.
    #[error("{}: {what}, not a dump of what a program computed with it", path.display())]
    Model {
        /// The file.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// A value has elements of a type that no activation has.
    #[error("{}: {name} has elements of type {found}, expected f16, bf16, f32 or f64", path.display())]
    Dtype {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// Its type, as the file says it.
        found: String,
    },
    /// Something is larger than this program is willing to hold.
    #[error("{}: {what} is {found}, at most {most} is read", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// What is too large.
        what: &'static str,
        /// Its size.
        found: u64,
        /// The cap.
        most: u64,
    },
    /// The width of the rows is not known.
    #[error(
        "{}: {name} has {values} values and no shape; say it in the name (Qcur-0_4x2048.bin) or with --width",
        path.display()
    )]
    Width {
        /// The file.
        path: PathBuf,
        /// The value.
        name: String,
        /// Its elements.
        values: usize,
    },
    /// A trace of a version this program does not know.
    #[error("{}: candor.trace version {found}, expected {expected}", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: String,
        /// Ours.
        expected: &'static str,
    },
    /// A folder without a dump in it.
    #[error("{}: no .safetensors, .npy, .npz, .bin, .txt, .log or .json file in this folder", path.display())]
    Empty {
        /// The folder.
        path: PathBuf,
    },
    /// The dump holds statistics instead of values.
    #[error("{}: holds only statistics, no values; read the _FULL_TENSORS.json written beside it", path.display())]
    Statistics {
        /// The file.
        path: PathBuf,
    },
    /// The log holds statistics instead of values.
    #[error(
        "{}: holds only statistics (mean, minimum, maximum), which most faults leave as they are; print the first ten \
         numbers of a row instead",
        path.display()
    )]
    StatisticsAlone {
        /// The file.
        path: PathBuf,
    },
    /// The dump is sound, and not one of its names is known.
    #[error(
        "{}: none of its {count} names is known ({sample}); say what they mean with --map",
        path.display()
    )]
    UnknownNames {
        /// The file.
        path: PathBuf,
        /// Names in the dump.
        count: usize,
        /// The first few.
        sample: String,
    },
    /// A line of a name map cannot be read.
    #[error("name map line {line}: {reason}")]
    Map {
        /// The line, from 1.
        line: usize,
        /// What is wrong, with what was expected.
        reason: String,
    },
}

impl ImportError {
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> ImportError {
        let path = path.to_owned();
        move |source| ImportError::Io { path, source }
    }

    pub(crate) fn malformed(path: &Path, format: &'static str, reason: impl Into<String>) -> ImportError {
        ImportError::Malformed { path: path.to_owned(), format, reason: reason.into() }
    }
}
