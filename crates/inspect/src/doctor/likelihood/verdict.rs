//! What the likelihoods mean, as findings.

use super::{Likelihood, Repaired};
use crate::doctor::finding::Finding;

/// From this gain on a fault is certain, in nats per token: more than the coarsest formats that models are used in cost.
const CERTAIN: f64 = 0.1;

impl Likelihood {
    /// What the text shows, as findings of `doctor`.
    pub fn findings(&self) -> Vec<Finding> {
        let faults: Vec<Finding> = self.faults.iter().filter_map(|fault| fault_of(fault)).collect();
        if !faults.is_empty() {
            return faults;
        }
        let (tokens, tried, counts) = (self.tokens, self.tried, self.entropy);
        vec![match self.nats {
            Some(nats) if nats < self.entropy => Finding::fine(
                "text",
                format!("{nats:.3} nats per token over {tokens} tokens, {counts:.3} by their counts alone"),
                format!("none of {tried} repairs of known faults makes it clearly likelier"),
            ),
            Some(nats) => Finding::fine(
                "text",
                format!(
                    "{nats:.3} nats per token over {tokens} tokens, which their counts alone predict better ({counts:.3})"
                ),
                format!(
                    "it says nothing about the file: the text is unlike the model's training, the weights are untrained, or the \
                     fault is not one of the {tried} that were undone"
                ),
            ),
            None => Finding::error(
                "text",
                format!("the likelihood of {tokens} tokens is no number"),
                "weights or metadata are damaged in a way that no known repair undoes",
            ),
        }]
    }
}

/// A fault in words: the likeliest repair, and those that are about as likely.
fn fault_of(repairs: &[Repaired]) -> Option<Finding> {
    let (best, others) = repairs.split_first()?;
    let Repaired { detail, cause, nats, gain, error, .. } = best;
    let before = nats + gain;
    let mut message = format!(
        "{cause} ({}): {before:.3} nats per token as it is, {nats:.3} after this change: {detail}; the difference is {gain:.3} +/- {error:.3}",
        best.name
    );
    let or = |other: &Repaired| format!("; or {:.3} after: {} ({})", other.nats, other.detail, other.name);
    others.iter().for_each(|other| message += &or(other));
    let mut hint = best.remedy.clone();
    if !best.commands.is_empty() {
        hint += &format!(". To mend the file: {}", best.commands.join(", then "));
    }
    let finding = if *gain >= CERTAIN { Finding::error } else { Finding::warning };
    Some(finding(best.subject.clone(), message, hint))
}
