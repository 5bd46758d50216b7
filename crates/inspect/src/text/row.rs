//! A row of the catalogue: what a fault is called and says, and the mutation that does what the faulty engine did.

use std::collections::BTreeSet;

use candor::{Message, sampler::Sampling};
use serde::Serialize;

use super::{scene::Scene, step::Step};

/// A known fault of the text side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TextFault {
    /// Its name: short, lower-case, with hyphens.
    pub name: &'static str,
    /// Where it is in the catalogue of research: `83`.
    pub entry: &'static str,
    /// What the engine did: a sentence, `{}` stands for the variant.
    pub cause: &'static str,
    /// What to do about it: a sentence.
    pub remedy: &'static str,
    /// Where it was seen: `owner/repository#number` on GitHub, or the research's file and entry.
    pub source: &'static str,
}

/// One of the ways in which a fault shows, with a word for it; the word is empty where there is only one.
pub(super) struct Variant<T> {
    pub label: String,
    pub value: T,
}

impl<T> Variant<T> {
    pub fn new(label: impl Into<String>, value: T) -> Variant<T> {
        Variant { label: label.into(), value }
    }

    /// The only way of a fault.
    pub fn only(value: T) -> Vec<Variant<T>> {
        vec![Variant::new("", value)]
    }
}

/// The ways in which a fault shows.
pub(super) type Ways<T> = Vec<Variant<T>>;

/// From a whole prompt and the suspect's to what is left of the whole one.
type CutAway = fn(&Scene<'_>, &[u32], &[u32]) -> Ways<Vec<u32>>;

/// What the faulty engine did in place of the right thing. A mutation that does not apply gives nothing; one that gives
/// what is right anyway is dropped by the caller.
pub(super) enum Mutation {
    /// Messages to text.
    Render(fn(&Scene<'_>, &[Message]) -> Ways<String>),
    /// Text to ids, BOS and EOS not added yet.
    Tokenize(fn(&Scene<'_>, &str) -> Ways<Vec<u32>>),
    /// Ids without BOS and EOS to a prompt.
    Frame(fn(&Scene<'_>, &[u32]) -> Ways<Vec<u32>>),
    /// A prompt cut to the length that the suspect has; the ids are the whole prompt's and the suspect's.
    Cut(CutAway),
    /// Ids that follow from no text: what speaks for it.
    Ids(fn(&Scene<'_>, &str, &[u32]) -> Option<String>),
    /// More tokens than there is room for: what speaks for it.
    Overflow(fn(&Scene<'_>) -> Option<String>),
    /// The tokens that may be chosen at a step.
    Choose(fn(&Scene<'_>, &Step<'_>) -> Option<Vec<u32>>),
    /// Other settings, distinguished from the given ones by how likely the chosen tokens are.
    Settings(fn(&Sampling) -> Option<Sampling>),
    /// The ids that end an answer.
    Stop(fn(&Scene<'_>) -> Option<BTreeSet<u32>>),
    /// What the printed text has that it should not.
    Leak(fn(&Scene<'_>, &str) -> Option<String>),
    /// Ids to text.
    Decode(fn(&Scene<'_>, &[u32]) -> Ways<String>),
    /// What is wrong with logits whatever the model: what speaks for it.
    Logits(fn(&Scene<'_>) -> Option<String>),
}

/// A fault with its mutation.
pub(super) struct Row {
    pub fault: TextFault,
    pub mutation: Mutation,
}

/// Every row of the catalogue.
pub(super) type Rows<'r> = &'r [&'static Row];
