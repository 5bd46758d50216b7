//! Where two lists of ids, or two texts, part: an excerpt of both around the first difference.

use candor::Tokenizer;
use serde::Serialize;

/// Ids, or characters, that are shown before and after the first difference.
const IDS_AROUND: usize = 8;
const CHARACTERS_AROUND: usize = 40;

/// A token of an excerpt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Piece {
    /// Its id.
    pub id: u32,
    /// Its text as the file spells it; `None` for an id that is no token.
    pub text: Option<String>,
}

/// The first difference, with what is around it. Nothing is left of a side that ends there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Difference {
    /// Of ids.
    Ids {
        /// Place of the first difference.
        at: usize,
        /// Place of the first id of both excerpts.
        from: usize,
        /// What is right.
        expected: Vec<Piece>,
        /// What the suspect has.
        suspect: Vec<Piece>,
        /// Ids in all: right, the suspect's.
        lengths: (usize, usize),
    },
    /// Of texts.
    Text {
        /// Characters before the first difference.
        at: usize,
        /// Characters before the excerpts.
        from: usize,
        /// What is right.
        expected: String,
        /// What the suspect has.
        suspect: String,
        /// Characters in all: right, the suspect's.
        lengths: (usize, usize),
    },
}

impl Difference {
    pub(super) fn of_ids(tokenizer: &Tokenizer, expected: &[u32], suspect: &[u32]) -> Difference {
        let at = expected.iter().zip(suspect).take_while(|(a, b)| a == b).count();
        let from = at.saturating_sub(IDS_AROUND);
        let excerpt = |ids: &[u32]| {
            let some = ids.iter().skip(from).take(at - from + IDS_AROUND);
            some.map(|&id| Piece { id, text: tokenizer.token(id).map(str::to_owned) }).collect()
        };
        let lengths = (expected.len(), suspect.len());
        Difference::Ids { at, from, expected: excerpt(expected), suspect: excerpt(suspect), lengths }
    }

    pub(super) fn of_texts(expected: &str, suspect: &str) -> Difference {
        let at = expected.chars().zip(suspect.chars()).take_while(|(a, b)| a == b).count();
        let from = at.saturating_sub(CHARACTERS_AROUND);
        let excerpt = |text: &str| text.chars().skip(from).take(at - from + CHARACTERS_AROUND).collect();
        let lengths = (expected.chars().count(), suspect.chars().count());
        Difference::Text { at, from, expected: excerpt(expected), suspect: excerpt(suspect), lengths }
    }
}
