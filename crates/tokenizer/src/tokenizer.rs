//! Text to ids and ids to text, whatever the vocabulary's kind. How a file becomes a tokenizer is in `load`, the two
//! algorithms are in `spm` and `bpe`.

use std::borrow::Cow;

use crate::bpe::Bpe;
use crate::kind::Kind;
use crate::partition::{Fragment, Partition};
use crate::specials::Specials;
use crate::spm::{self, Prefix, Spm};
use crate::stream::StreamDecoder;
use crate::vocab::Vocab;

/// A model's tokenizer. Cheap to share between threads by reference; it never changes.
pub struct Tokenizer {
    pub(crate) vocab: Vocab,
    pub(crate) specials: Specials,
    pub(crate) algorithm: Algorithm,
    pub(crate) partition: Partition,
    pub(crate) add_bos: bool,
    pub(crate) add_eos: bool,
    pub(crate) warnings: Vec<String>,
}

/// What turns plain text into ids.
pub(crate) enum Algorithm {
    Spm {
        spm: Spm,
        /// Whether a space goes before text at the start and after special tokens.
        add_space_prefix: bool,
    },
    Bpe(Bpe),
}

/// How [`Tokenizer::encode`] reads a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Encode {
    /// Adds BOS and EOS where the file asks for them (`add_bos_token`, `add_eos_token`), and never a second time.
    pub bos: bool,
    /// Reads the texts of control tokens (`<|im_start|>`) as those tokens. Without it they are plain text, which is what
    /// a user's words must be. Tokens that the vocabulary calls user-defined are read either way, as in llama.cpp.
    pub specials: bool,
}

impl Encode {
    /// Plain text in the middle of something: no BOS, control tokens are only text.
    pub const fn text() -> Encode {
        Encode { bos: false, specials: false }
    }

    /// A whole prompt, such as a chat template renders: BOS as the file says, control tokens are read.
    pub const fn prompt() -> Encode {
        Encode { bos: true, specials: true }
    }
}

/// What becomes of control tokens in decoded text.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Show {
    /// They are left out.
    #[default]
    Text,
    /// Their spelling is shown.
    Specials,
}

impl Tokenizer {
    /// The ids of `text`. Never fails: what no token spells becomes byte tokens, or the unknown token, or (in a
    /// vocabulary that has neither, with a warning at load) nothing.
    pub fn encode(&self, text: &str, options: Encode) -> Vec<u32> {
        let ignored = if options.specials { Kind::UNDEFINED } else { Kind::RESERVED };
        let fragments = self.partition.split(text, &self.vocab, ignored);
        let wanted = |wanted: bool, id: Option<u32>, there: Option<&Fragment>| {
            id.filter(|&id| options.bos && wanted && there != Some(&Fragment::Token(id)))
        };
        let mut ids = Vec::with_capacity(text.len() / 3 + 2);
        ids.extend(wanted(self.add_bos, self.specials.bos, fragments.first()));
        let mut after_text = false;
        for fragment in &fragments {
            match (fragment, &self.algorithm) {
                (Fragment::Token(id), _) => ids.push(*id),
                (Fragment::Text(text), Algorithm::Bpe(bpe)) => bpe.encode(text, &self.vocab, &mut ids),
                (Fragment::Text(text), Algorithm::Spm { spm, add_space_prefix }) => {
                    let prefix = if *add_space_prefix && !after_text { Prefix::Space } else { Prefix::None };
                    spm.encode(text, prefix, &self.vocab, &mut ids);
                }
            }
            after_text = matches!(fragment, Fragment::Text(_));
        }
        ids.extend(wanted(self.add_eos, self.specials.eos, fragments.last()));
        ids
    }

    /// The text of `ids`, the inverse of [`Tokenizer::encode`]: control tokens are left out, and so are the spaces that
    /// encoding adds. Bytes that are not UTF-8 become U+FFFD, ids that are no token nothing.
    pub fn decode(&self, ids: &[u32]) -> String {
        let mut stream = self.stream();
        let mut text = String::new();
        for &id in ids {
            text.push_str(&stream.push(id));
        }
        text.push_str(&stream.finish());
        text
    }

    /// Decodes token by token, from the beginning of a text. See [`StreamDecoder`] for the middle of one.
    pub fn stream(&self) -> StreamDecoder<&Tokenizer> {
        StreamDecoder::new(self)
    }

    /// The bytes of one token, with the leading space that it may have: possibly only a part of a character. Empty for
    /// control tokens (unless shown), unused tokens and ids that are no token.
    pub fn piece(&self, id: u32, show: Show) -> Cow<'_, [u8]> {
        let (kind, text) = (self.vocab.kind(id), self.vocab.text(id).unwrap_or_default());
        if kind.any(Kind::RESERVED) && show == Show::Text {
            return Cow::Borrowed(&[]);
        }
        if kind.any(Kind::SPECIAL) {
            return Cow::Borrowed(text.as_bytes());
        }
        if kind.any(Kind::BYTE)
            && let Some(byte) = byte_spelled(text)
        {
            return Cow::Owned(vec![byte]);
        }
        if !kind.any(Kind::NORMAL.with(Kind::BYTE)) {
            return Cow::Borrowed(&[]);
        }
        match &self.algorithm {
            Algorithm::Bpe(_) => Cow::Owned(Bpe::decode(text)),
            Algorithm::Spm { .. } if text.contains(spm::SPACE) => {
                Cow::Owned(text.replace(spm::SPACE, " ").into_bytes())
            }
            Algorithm::Spm { .. } => Cow::Borrowed(text.as_bytes()),
        }
    }

    /// Whether encoding puts a space before text that follows token `id`, or that follows nothing where it is `None`.
    pub(crate) fn adds_space_after(&self, id: Option<u32>) -> bool {
        let adds = matches!(self.algorithm, Algorithm::Spm { add_space_prefix: true, .. });
        adds && id.is_none_or(|id| self.vocab.kind(id).any(Kind::SPECIAL))
    }

    /// What is odd about the file's tokenizer, one line each. To be shown to the user once.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Number of tokens.
    pub fn vocab_size(&self) -> usize {
        self.vocab.len()
    }

    /// The text of token `id` as the file spells it (a space may be U+0120 or U+2581).
    pub fn token(&self, id: u32) -> Option<&str> {
        self.vocab.text(id)
    }

    /// The token that the file spells `token`.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.vocab.id(token)
    }

    /// The token that begins a text.
    pub fn bos(&self) -> Option<u32> {
        self.specials.bos
    }

    /// The token that ends a text.
    pub fn eos(&self) -> Option<u32> {
        self.specials.eos
    }

    /// The token that ends a turn of a conversation.
    pub fn eot(&self) -> Option<u32> {
        self.specials.eot
    }

    /// The token that ends a message, such as a call of a tool, within a turn.
    pub fn eom(&self) -> Option<u32> {
        self.specials.eom
    }

    /// The token of what the vocabulary cannot spell.
    pub fn unk(&self) -> Option<u32> {
        self.specials.unk
    }

    /// The token that fills up batches in training.
    pub fn pad(&self) -> Option<u32> {
        self.specials.pad
    }

    /// Every token after which an answer is over, ascending: EOS, EOT, EOM, and what llama.cpp knows by its text.
    pub fn stop_ids(&self) -> &[u32] {
        &self.specials.stop
    }

    /// Whether token `id` steers the model instead of being text.
    pub fn is_control(&self, id: u32) -> bool {
        self.vocab.kind(id).any(Kind::CONTROL)
    }

    /// `tokenizer.ggml.model`: `llama` (SPM) or `gpt2` (BPE).
    pub fn model_name(&self) -> &'static str {
        match self.algorithm {
            Algorithm::Spm { .. } => "llama",
            Algorithm::Bpe(_) => "gpt2",
        }
    }

    /// The name of the pre-tokenizer's rules; names for the same rules give the first of them. SPM has `default`.
    pub fn pre_name(&self) -> &'static str {
        match &self.algorithm {
            Algorithm::Spm { .. } => "default",
            Algorithm::Bpe(bpe) => bpe.rules.names[0],
        }
    }

    /// Whether a prompt gets a BOS token.
    pub fn add_bos(&self) -> bool {
        self.add_bos
    }

    /// Whether a prompt gets an EOS token.
    pub fn add_eos(&self) -> bool {
        self.add_eos
    }
}

/// The byte that a text such as `<0x0A>` spells.
fn byte_spelled(text: &str) -> Option<u8> {
    let digits = text.strip_prefix("<0x")?.strip_suffix('>')?;
    if digits.len() != 2 || digits.starts_with('+') {
        return None;
    }
    u8::from_str_radix(digits, 16).ok()
}
