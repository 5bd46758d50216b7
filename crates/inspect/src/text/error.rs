//! What keeps a run from being checked.

/// Why what was said cannot be checked at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// The file has no vocabulary that is built in.
    #[error("vocabulary: {0}")]
    Tokenizer(#[from] candor::error::TokenizerError),
    /// A metadata value has another type than it should.
    #[error(transparent)]
    Metadata(#[from] candor_gguf::Error),
    /// Nothing was said.
    #[error("evidence: expected a prompt, ids, a text or logits, got nothing")]
    Nothing,
}
