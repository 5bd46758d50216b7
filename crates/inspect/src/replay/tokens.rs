//! What a trace's rows stand for.

/// Whose rows a value has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Side {
    /// The tokens'.
    #[default]
    Tokens,
    /// Those of the text that an encoder reads, which the tokens answer.
    Text,
}

/// The tokens of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tokens {
    /// Ids, prompt and then what was decoded.
    pub ids: Vec<u32>,
    /// Position of each.
    pub positions: Vec<u32>,
    /// How many were evaluated together as the prompt.
    pub prompt: usize,
    /// Ids of the text that an encoder read before; empty without an encoder.
    pub text: Vec<u32>,
}

impl Tokens {
    /// Tokens at 0, 1, 2... of which the first `prompt` came together.
    pub fn new(ids: Vec<u32>, prompt: usize) -> Tokens {
        let positions = (0..ids.len() as u32).collect();
        Tokens { prompt: prompt.min(ids.len()), ids, positions, text: Vec::new() }
    }

    /// Ids of a side.
    pub fn ids(&self, side: Side) -> &[u32] {
        match side {
            Side::Tokens => &self.ids,
            Side::Text => &self.text,
        }
    }

    /// Rows of a side.
    pub fn rows(&self, side: Side) -> usize {
        self.ids(side).len()
    }

    /// Where each row of a side stands.
    pub(crate) fn positions(&self, side: Side) -> Vec<u32> {
        match side {
            Side::Tokens => self.positions.clone(),
            Side::Text => (0..self.text.len() as u32).collect(),
        }
    }
}
