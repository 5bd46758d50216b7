//! What an attention layer does between its scores and its values: mask, cap, biases, sinks. As data, so that a fault can
//! change it.

use candor_ops::{Attention, Heads, Mask, Tensor};

/// An attention layer with the weights that it reads.
#[derive(Clone, Debug)]
pub struct Attending {
    /// How heads lie in a row.
    pub heads: Heads,
    /// Who sees what.
    pub mask: Mask,
    /// What scaled scores are squashed to.
    pub soft_cap: Option<f32>,
    /// ALiBi's greatest slope exponent.
    pub alibi: Option<f32>,
    /// A score per head that has no value.
    pub sinks: Option<Tensor>,
    /// Scores by distance: the table, `[buckets, heads]`, and the distance from which all fall into the last bucket.
    pub relative: Option<(Tensor, usize)>,
}

impl Attending {
    /// The layer that a wiring asks for.
    pub(crate) fn new(attention: &Attention<'_, Tensor>) -> Attending {
        let Attention { heads, mask, soft_cap, alibi, sinks, relative } = *attention;
        let relative = relative.map(|relative| (relative.table.clone(), relative.most));
        Attending { heads, mask, soft_cap, alibi, sinks: sinks.cloned(), relative }
    }

    /// Whether there is nothing but the causal mask.
    pub(crate) fn is_plain(&self) -> bool {
        let biased = self.alibi.is_some() || self.sinks.is_some() || self.relative.is_some();
        self.mask == Mask::Causal && self.soft_cap.is_none() && !biased
    }

    /// The weight that it reads, where it reads one.
    pub(crate) fn weight(&self) -> Option<&Tensor> {
        self.sinks.as_ref().or(self.relative.as_ref().map(|(table, _)| table))
    }
}
