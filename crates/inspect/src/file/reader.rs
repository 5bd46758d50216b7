//! Reading our own trace file back.

use std::{collections::BTreeMap, path::Path};

use super::{
    layout,
    metadata::{self, VERSION},
};
use crate::{
    Evidence, Key, Known, Trace,
    import::{ImportError, SafeFile, Tensor},
};

const FORMAT: &str = "trace";

/// Whether a safetensors file says of itself that it is a trace.
pub(crate) fn is_trace(file: &SafeFile) -> bool {
    file.metadata().contains_key(metadata::MARK)
}

/// Reads every value of a trace file.
pub(crate) fn read_trace(path: &Path, file: &mut SafeFile) -> Result<Trace, ImportError> {
    let about = file.metadata();
    let malformed = |reason: String| ImportError::malformed(path, FORMAT, reason);
    let version = about.get(metadata::MARK).cloned().unwrap_or_default();
    if version != VERSION {
        return Err(ImportError::Version { path: path.to_owned(), found: version, expected: VERSION });
    }
    let origin = metadata::origin(&about).map_err(malformed)?;
    let mut values = BTreeMap::new();
    for name in file.names() {
        let key: Key = name.parse().unwrap_or_else(|never| match never {});
        let tensor = file.values(&name)?;
        let (count, width, elements) = match tensor {
            Tensor { shape, values } if layout::is_scores(&key.name) && shape.len() == 3 => {
                let [heads, rows, positions] = [shape[0], shape[1], shape[2]];
                (rows, heads * positions, layout::rows_from_heads(&values, [heads, rows, positions]))
            }
            Tensor { shape, values } if shape.len() == 2 => (shape[0], shape[1], values),
            Tensor { shape, .. } => {
                return Err(malformed(format!("{name} has shape {shape:?}, expected [rows, width]")));
            }
        };
        let rows = Some(metadata::rows(&about, &key, count).map_err(malformed)?);
        let evidence = Evidence { width, rows, known: Known::All(elements), sum: None, precision: 0.0 };
        values.insert(key, evidence);
    }
    Ok(Trace { origin, values })
}
