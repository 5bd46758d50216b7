//! What can be wrong with sampling settings or logits.

/// What can be wrong with sampling settings or logits.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting out of its range.
    #[error("{name}: expected {expected}, got {got}")]
    Setting {
        /// The setting, as in [`Sampling`](super::Sampling).
        name: &'static str,
        /// What it may be.
        expected: &'static str,
        /// What it is.
        got: String,
    },
    /// A sampler's name that means nothing.
    #[error("sampler `{name}` is unknown; the samplers are {}", super::SamplerKind::names())]
    UnknownSampler {
        /// The name.
        name: String,
    },
    /// A chain with nothing between two `;`, or after the last.
    #[error("sampler {position} of `{chain}` has no name; the samplers are {}", super::SamplerKind::names())]
    NamelessSampler {
        /// Which one it is, from 1.
        position: usize,
        /// The chain.
        chain: String,
    },
    /// A letter of a sampler sequence that means nothing.
    #[error("sampler letter `{letter}` is unknown; the letters are {}", super::SamplerKind::letters())]
    UnknownLetter {
        /// The letter.
        letter: char,
    },
    /// A logit bias for a token that does not exist.
    #[error("logit_bias: token {id} is outside of the vocabulary of {tokens}")]
    BiasOutside {
        /// The token of the bias.
        id: u32,
        /// Tokens of the vocabulary.
        tokens: usize,
    },
    /// DRY has sequence breakers but was given no vocabulary to find them in.
    #[error("dry_sequence_breakers: expected a vocabulary to find them in, got none")]
    NoVocabulary,
    /// No token may follow.
    #[error("logits: expected a token that may follow, got {logits} logits that are NaN, minus infinity or excluded")]
    NothingLeft {
        /// Number of the logits given.
        logits: usize,
    },
}
