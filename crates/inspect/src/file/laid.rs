//! A value as it goes to a trace file, and the tokens that such values reach.

use crate::{Key, Origin};

/// A value as it goes to the file.
#[derive(Clone, Debug)]
pub(super) struct Laid {
    pub(super) key: Key,
    /// The token of each row.
    pub(super) rows: Vec<usize>,
    /// Elements per row.
    pub(super) width: usize,
    /// For attention scores: the heads in a row, each with `width / heads` positions.
    pub(super) heads: Option<usize>,
}

impl Laid {
    pub(super) fn shape(&self) -> Vec<usize> {
        match self.heads {
            Some(heads) => vec![heads, self.rows.len(), self.width.checked_div(heads).unwrap_or(0)],
            None => vec![self.rows.len(), self.width],
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.rows.len() as u64 * self.width as u64 * size_of::<f32>() as u64
    }
}

/// Tokens that a trace speaks of: those it names, or as many as its rows reach.
pub(super) fn token_count<'a>(origin: &Origin, values: impl Iterator<Item = &'a Laid>) -> usize {
    let reached = values.filter_map(|laid| laid.rows.iter().max()).max().map_or(0, |row| row + 1);
    origin.tokens.as_ref().map_or(reached, |tokens| tokens.len().max(reached))
}
