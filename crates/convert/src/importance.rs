//! How much the columns of matrices count when they are quantized.

use std::collections::BTreeMap;
use std::path::Path;

use crate::{Error, Imatrix};

/// How much each column of each matrix counts: the mean square of what it was multiplied with.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Importance {
    /// By the name of the tensor; of a stack of experts one run of columns after the other.
    pub entries: BTreeMap<String, Vec<f32>>,
    /// The texts that it was made of.
    pub datasets: Vec<String>,
    /// Pieces of text that were read; 0 where the file does not say.
    pub chunks: u32,
}

impl Importance {
    /// Reads a file of [`Imatrix`], of either format.
    ///
    /// # Errors
    /// As [`Imatrix::open`].
    pub fn open(path: &Path) -> Result<Importance, Error> {
        Ok(Imatrix::open(path)?.into())
    }

    /// Keeps the entries whose name holds one of `included`, where any are given, and none of `excluded`.
    pub fn restrict(&mut self, included: &[String], excluded: &[String]) {
        let has = |name: &str, parts: &[String]| parts.iter().any(|part| name.contains(part.as_str()));
        self.entries.retain(|name, _| (included.is_empty() || has(name, included)) && !has(name, excluded));
    }
}

impl From<Imatrix> for Importance {
    fn from(read: Imatrix) -> Importance {
        let Imatrix { entries, datasets, chunks, .. } = read;
        let entries = entries.into_iter().map(|(name, entry)| (name, entry.means())).collect();
        Importance { entries, datasets, chunks }
    }
}
