//! Reading dumps: our own trace, other engines' tensors, logs people paste. What a file is, its content says, not its
//! name. What the names in it mean is `crate::names`.

mod archive;
mod caps;
mod debugger;
mod dump;
mod error;
mod eval_callback;
mod folder;
mod lines;
mod numpy;
mod pairing;
mod place;
mod printed;
mod raw;
mod reading;
mod safetensors;
mod sniff;
mod tensor;

use std::{path::Path, sync::Arc};

use crate::{
    Trace,
    file::{is_trace, read_trace},
    names::{NameMap, ProjectionBias, Wiring},
};

use dump::Dump;
pub use error::ImportError;
use lines::Unsaid;
pub use pairing::{Pairing, change_pairing};
pub use reading::{Made, Reading};
pub(crate) use safetensors::SafeFile;
use sniff::Format;
pub(crate) use tensor::Tensor;

/// What a reader has to be given because the dump does not say it.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// Elements per row of a raw `.bin` file whose name does not say its shape.
    pub width: Option<usize>,
    /// Names only the user knows.
    pub names: NameMap,
    /// Whether `q_proj` and `k_proj` are traced with their bias.
    pub bias: ProjectionBias,
    /// What the model has: names that are its own, and modules by the weights that they hold, mean that.
    pub wiring: Option<Arc<Wiring>>,
    /// The ids of the tokens, where the user knows them.
    pub tokens: Option<Vec<u32>>,
}

/// A dump that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// What it holds, under our names.
    pub trace: Trace,
    /// The format it was in, in words.
    pub format: &'static str,
    /// Names that no map knows, in the order of the dump, each once.
    pub unknown: Vec<String>,
    /// Values that were left out although their name is known: `NAME: reason`.
    pub skipped: Vec<String>,
    /// How the lines of a log were read.
    pub read: Vec<Reading>,
    /// Rows that a log does not say the token of.
    unsaid: Vec<Unsaid>,
}

impl Imported {
    /// The dump as it may be meant: as it is, and where a log does not say the token of some rows, with these rows as each of
    /// the tokens that people print: the last, the last of the prompt, the first. The token is beside it, from the end where
    /// it is negative.
    pub fn readings(&self) -> impl Iterator<Item = (Option<i64>, Trace)> {
        let origin = &self.trace.origin;
        let tokens = origin.tokens.as_ref().map_or(0, Vec::len) as i64;
        let prompt = origin.prompt_tokens.map_or(tokens, |prompt| prompt as i64);
        let mut places = vec![tokens - 1, prompt - 1, 0];
        places.dedup();
        places.retain(|&place| place >= 0 && !self.unsaid.is_empty());
        let moved = places.into_iter().map(|place| (Some(place), self.with_rows_at(place)));
        std::iter::once((None, self.trace.clone())).chain(moved)
    }

    fn with_rows_at(&self, place: i64) -> Trace {
        let mut trace = self.trace.clone();
        for unsaid in &self.unsaid {
            if let Some(evidence) = unsaid.at(place) {
                trace.values.insert(unsaid.key.clone(), evidence);
            }
        }
        trace
    }
}

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
        format => read_file(path, format, options)?,
    };
    dump.finish(path, options)
}

/// Reads one file that is no trace of ours.
fn read_file(path: &Path, format: Format, options: &ReadOptions) -> Result<Dump, ImportError> {
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
