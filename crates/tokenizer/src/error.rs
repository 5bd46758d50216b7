//! What can be wrong with a tokenizer's metadata or a chat template. Encoding and decoding cannot fail.

/// An error of this crate; the message names the metadata key, the token or the template's line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A metadata value has another type than the tokenizer needs.
    #[error(transparent)]
    Metadata(#[from] candor_gguf::Error),
    /// A key that this tokenizer cannot do without.
    #[error("{key}: missing")]
    Missing {
        /// The metadata key.
        key: &'static str,
    },
    /// `tokenizer.ggml.model` names a tokenizer that is not built in.
    #[error("tokenizer.ggml.model: unknown tokenizer {name:?}, it would need {needs}")]
    UnknownModel {
        /// The name in the file.
        name: String,
        /// What it would take to support it.
        needs: &'static str,
    },
    /// `tokenizer.ggml.pre` names splitting rules that are not built in. Guessing them would give wrong ids.
    #[error("tokenizer.ggml.pre: unknown pre-tokenizer {name:?}, it would need its splitting rules in the table")]
    UnknownPreTokenizer {
        /// The name in the file.
        name: String,
    },
    /// An array that goes with the token list has another length.
    #[error("{key}: expected {expected} items, one for each token, got {got}")]
    Length {
        /// The metadata key.
        key: &'static str,
        /// The number of tokens.
        expected: usize,
        /// The number of items.
        got: usize,
    },
    /// More tokens, or more text in them, than any vocabulary has.
    #[error("tokenizer.ggml.tokens: expected at most {limit} {unit}, got {got}")]
    TooLarge {
        /// What is counted.
        unit: &'static str,
        /// The cap.
        limit: usize,
        /// The number in the file.
        got: usize,
    },
    /// Two tokens have the same text, so that text has no single id.
    #[error("tokenizer.ggml.tokens: token {second} repeats the text of token {first}: {text:?}")]
    DuplicateToken {
        /// The lower id.
        first: u32,
        /// The higher id.
        second: u32,
        /// Their text.
        text: String,
    },
    /// A line of the merge list is not two symbols with a space between them.
    #[error("tokenizer.ggml.merges: item {index}: expected two symbols separated by a space, got {text:?}")]
    Merge {
        /// Its position in the list.
        index: usize,
        /// The line.
        text: String,
    },
    /// `tokenizer.ggml.precompiled_charsmap` is not what SentencePiece writes.
    #[error(
        "tokenizer.ggml.precompiled_charsmap: expected a length, a trie and replacements, got {got} bytes that are not"
    )]
    Charsmap {
        /// Its length.
        got: usize,
    },
    /// The key of a special token holds an id that is no token.
    #[error("{key}: expected an id below {tokens}, got {id}")]
    TokenId {
        /// The metadata key.
        key: &'static str,
        /// The id in the file.
        id: u32,
        /// The number of tokens.
        tokens: usize,
    },
    /// The file asks for a token at the start or end of every text, and does not say which.
    #[error("{flag}: true, but {key} is missing")]
    NoSuchToken {
        /// The flag that is set.
        flag: &'static str,
        /// The key that is missing.
        key: &'static str,
    },
    /// The chat template cannot be parsed.
    #[error("chat template line {line}: {message}")]
    TemplateSyntax {
        /// Its line, from 1.
        line: usize,
        /// What is wrong there.
        message: String,
    },
    /// The chat template failed on these messages, or refused them with `raise_exception`.
    #[error("chat template{}: {message}", line.map(|line| format!(" line {line}")).unwrap_or_default())]
    TemplateRender {
        /// Its line, from 1, where it is known.
        line: Option<usize>,
        /// What is wrong there.
        message: String,
    },
    /// Tools cannot be offered with this chat template.
    #[error("chat template: tools: {reason}")]
    Tools {
        /// What is missing.
        reason: String,
    },
}
