//! A dump as a trace, and how it was read.

use super::{lines::Unsaid, reading::Reading};
use crate::Trace;

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
    pub(super) unsaid: Vec<Unsaid>,
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
