//! Reading dumps: our own trace, other engines' tensors, logs people paste. What a file is, its content says, not its
//! name. What the names in it mean is `crate::names`.

mod archive;
mod caps;
mod debugger;
mod dump;
mod error;
mod eval_callback;
mod folder;
mod formats;
mod imported;
mod lines;
mod numpy;
mod options;
mod pairing;
mod place;
mod printed;
mod raw;
mod reading;
mod safetensors;
mod sniff;
mod tensor;

use std::path::Path;

use crate::Trace;

pub use error::ImportError;
pub use imported::Imported;
pub use options::ReadOptions;
pub use pairing::{Pairing, change_pairing};
pub use reading::{Made, Reading};
pub(crate) use safetensors::SafeFile;
use sniff::Format;
pub(crate) use tensor::Tensor;

/// Reads a dump; what was left out is not reported, see [`import`].
///
/// # Errors
/// As [`import`].
pub fn read(path: &Path, options: &ReadOptions) -> Result<Trace, ImportError> {
    import(path, options).map(|imported| imported.trace)
}

/// Reads a dump: a file of any known format, or a folder of them.
///
/// # Errors
/// If the file cannot be read, is no known format, breaks its rules, is too large, or no name in it is known.
pub fn import(path: &Path, options: &ReadOptions) -> Result<Imported, ImportError> {
    let dump = match sniff::format(path)? {
        Format::Folder => folder::read(path, options)?,
        format => formats::read(path, format, options)?,
    };
    dump.finish(path, options)
}
