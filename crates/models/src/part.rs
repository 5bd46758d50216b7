//! A part of a model: what one backend computes where several share the layers.

use std::ops::Range;

/// Where a part's values come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// From the step's tokens: the part has the embedding.
    Tokens,
    /// From the part before it: the residual stream is given.
    Stream,
}

/// What a part leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The residual stream, for the part after it.
    Stream,
    /// Logits: the part has the head.
    Logits,
}

/// Layers that follow each other, with or without what is before the first and after the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Where it begins.
    pub begin: Begin,
    /// Its layers, by the model's numbers; may be none.
    pub layers: Range<usize>,
    /// Where it ends.
    pub end: End,
}

impl Part {
    /// All of a model of `layers` layers.
    pub fn whole(layers: usize) -> Part {
        Part { begin: Begin::Tokens, layers: 0..layers, end: End::Logits }
    }

    /// Whether nothing of a model of `layers` layers is left out.
    pub fn is_whole(&self, layers: usize) -> bool {
        *self == Part::whole(layers)
    }
}
