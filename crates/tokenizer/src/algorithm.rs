//! What the kinds of vocabularies have in common: plain text to ids, a token's text to bytes, what goes around a text.

use std::borrow::Cow;

use crate::bpe::Bpe;
use crate::char_bpe::CharBpe;
use crate::kind::Kind;
use crate::plamo2::Plamo2;
use crate::rwkv::{self, Rwkv};
use crate::spm::{self, Prefix, Spm};
use crate::unigram::Unigram;
use crate::vocab::Vocab;
use crate::wordpiece::WordPiece;

/// What turns plain text into ids.
pub(crate) enum Algorithm {
    Spm {
        spm: Spm,
        /// Whether a space goes before text at the start and after special tokens.
        add_space_prefix: bool,
    },
    Bpe(Bpe),
    CharBpe {
        bpe: CharBpe,
        /// `tokenizer.ggml.model`, of which this kind has several.
        model: &'static str,
    },
    WordPiece(WordPiece),
    Unigram(Unigram),
    Rwkv(Rwkv),
    Plamo2(Plamo2),
}

impl Algorithm {
    /// Appends the ids of `text`, which contains no special token. `prefix` says whether it may get a space before it.
    pub fn encode(&self, text: &str, prefix: Prefix, vocab: &Vocab, out: &mut Vec<u32>) {
        match self {
            Algorithm::Spm { spm, add_space_prefix } => {
                spm.encode(text, if *add_space_prefix { prefix } else { Prefix::None }, vocab, out);
            }
            Algorithm::Bpe(bpe) => bpe.encode(text, vocab, out),
            Algorithm::CharBpe { bpe, .. } => bpe.encode(text, vocab, out),
            Algorithm::WordPiece(wordpiece) => wordpiece.encode(text, out),
            Algorithm::Unigram(unigram) => unigram.encode(text, out),
            Algorithm::Rwkv(rwkv) => rwkv.encode(text, out),
            Algorithm::Plamo2(plamo2) => plamo2.encode(text, out),
        }
    }

    /// The bytes of an ordinary token.
    pub fn decode<'a>(&self, text: &'a str) -> Cow<'a, [u8]> {
        match self {
            Algorithm::Bpe(_) => Cow::Owned(Bpe::decode(text)),
            Algorithm::Rwkv(_) => Cow::Owned(rwkv::decode(text)),
            Algorithm::Plamo2(_) => Cow::Borrowed(text.as_bytes()),
            _ if text.contains(spm::SPACE) => Cow::Owned(text.replace(spm::SPACE, " ").into_bytes()),
            _ => Cow::Borrowed(text.as_bytes()),
        }
    }

    /// Whether encoding puts a space before a text.
    pub fn adds_space(&self) -> bool {
        match self {
            Algorithm::Spm { add_space_prefix, .. } => *add_space_prefix,
            Algorithm::WordPiece(_) => true,
            Algorithm::Unigram(unigram) => unigram.spacing.prefix || unigram.spacing.merge,
            _ => false,
        }
    }

    /// Kinds of tokens after which text begins again, with a space added where one is.
    pub fn parting(&self) -> Kind {
        match self {
            Algorithm::WordPiece(_) => Kind::UNDEFINED,
            // An unknown token stands for a part of a word.
            Algorithm::Unigram(_) => Kind::CONTROL.with(Kind::USER_DEFINED),
            _ => Kind::SPECIAL,
        }
    }

    /// Whether decoded text has spaces around punctuation that were not there.
    pub fn spaces_punctuation(&self) -> bool {
        matches!(self, Algorithm::WordPiece(_))
    }

    /// `tokenizer.ggml.model`.
    pub fn model(&self) -> &'static str {
        match self {
            Algorithm::Spm { .. } => "llama",
            Algorithm::Bpe(_) => "gpt2",
            Algorithm::CharBpe { model, .. } => model,
            Algorithm::WordPiece(_) => "bert",
            Algorithm::Unigram(_) => "t5",
            Algorithm::Rwkv(_) => "rwkv",
            Algorithm::Plamo2(_) => "plamo2",
        }
    }

    /// The name of the pre-tokenizer's rules; names for the same rules give the first of them.
    pub fn pre(&self) -> &'static str {
        match self {
            Algorithm::Bpe(bpe) => bpe.rules.names[0],
            Algorithm::CharBpe { bpe, .. } => bpe.rules.names[0],
            _ => "default",
        }
    }
}
