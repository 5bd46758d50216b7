//! What can be wrong with a grammar.

/// What can be wrong with a grammar, or with a vocabulary that shall follow one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Invalid JSON schema, or one with a keyword that is not served.
    #[error("JSON schema: {0}")]
    Schema(String),
    /// Invalid regular expression.
    #[error("regular expression: {0}")]
    Regex(String),
    /// Invalid grammar in Lark's syntax.
    #[error("grammar: {0}")]
    Lark(String),
    /// Invalid grammar in GBNF, with the line from 1.
    #[error("grammar: line {line}: {what}")]
    Gbnf {
        /// The line, from 1.
        line: usize,
        /// What is wrong there.
        what: String,
    },
    /// The vocabulary cannot end a text.
    #[error("the vocabulary has no token that ends a text")]
    NoEnd,
    /// The vocabulary is not one that a grammar can follow.
    #[error("vocabulary: {0}")]
    Vocabulary(String),
}
