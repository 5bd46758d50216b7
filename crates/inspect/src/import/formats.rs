//! The reader of each format.

use std::path::Path;

use super::{
    archive, debugger, dump::Dump, error::ImportError, eval_callback, lines, numpy, options::ReadOptions, raw,
    safetensors::SafeFile, sniff::Format,
};
use crate::{
    Trace,
    file::{is_trace, read_trace},
};

/// Reads one file that is no trace of ours.
pub(super) fn read(path: &Path, format: Format, options: &ReadOptions) -> Result<Dump, ImportError> {
    match format {
        Format::Folder => Err(ImportError::Unrecognized { path: path.to_owned() }),
        Format::SafeTensors => {
            let mut file = SafeFile::open(path)?;
            if is_trace(&file) {
                let Trace { origin, values } = read_trace(path, &mut file)?;
                return Ok(Dump { origin, known: values.into_iter().collect(), ..Dump::of("candor trace") });
            }
            file.dump(path)
        }
        Format::Numpy => numpy::read(path),
        Format::Archive => archive::read(path),
        Format::Debugger => debugger::read(path),
        Format::EvalCallback => eval_callback::read(path, options),
        Format::Lines => lines::read(path, options),
        Format::Raw => raw::read(path, options),
    }
}
