//! What the file says a token is (`tokenizer.ggml.token_type`), as a set of flags, because a token can be two things at
//! once: llama.cpp marks an end-of-turn token as control whatever the file called it. It is not the token's text.

/// A set of token properties.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Kind(u8);

impl Kind {
    /// Neither text nor special: type 0 or a number that GGUF does not define. It has no text when decoded.
    pub const UNDEFINED: Kind = Kind(0);
    /// Ordinary text.
    pub const NORMAL: Kind = Kind(1);
    /// Stands for text that the vocabulary cannot spell. Matched and hidden like a control token.
    pub const UNKNOWN: Kind = Kind(2);
    /// Steers the model (begin, end, roles). Matched in text only on request, hidden when decoded.
    pub const CONTROL: Kind = Kind(4);
    /// Added by a user of the tokenizer: matched in text before anything else, shown when decoded.
    pub const USER_DEFINED: Kind = Kind(8);
    /// Reserved.
    pub const UNUSED: Kind = Kind(16);
    /// One raw byte, spelled `<0x0A>`.
    pub const BYTE: Kind = Kind(32);
    /// White space after the token in the text belongs to it.
    pub const RSTRIP: Kind = Kind(64);
    /// White space before the token in the text belongs to it.
    pub const LSTRIP: Kind = Kind(128);

    /// Tokens that are cut out of the text before it is tokenized.
    pub const SPECIAL: Kind = Kind(Self::UNKNOWN.0 | Self::CONTROL.0 | Self::USER_DEFINED.0);
    /// Special tokens that text from a user must not be able to produce.
    pub const RESERVED: Kind = Kind(Self::UNKNOWN.0 | Self::CONTROL.0);

    /// The kind of a value of `tokenizer.ggml.token_type`.
    pub fn from_gguf(value: i32) -> Kind {
        match value {
            1 => Self::NORMAL,
            2 => Self::UNKNOWN,
            3 => Self::CONTROL,
            4 => Self::USER_DEFINED,
            5 => Self::UNUSED,
            6 => Self::BYTE,
            _ => Self::UNDEFINED,
        }
    }

    /// Whether any flag of `other` is set.
    pub fn any(self, other: Kind) -> bool {
        self.0 & other.0 != 0
    }

    /// Both sets together.
    pub fn with(self, other: Kind) -> Kind {
        Kind(self.0 | other.0)
    }
}
