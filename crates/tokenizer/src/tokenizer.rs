//! Text to ids and an id to its text, whatever the vocabulary's kind. How a file becomes a tokenizer is in `load`, what
//! the kinds have in common in `algorithm`, ids to text in `stream`.

use std::borrow::Cow;

use crate::algorithm::Algorithm;
use crate::kind::Kind;
use crate::partition::{Fragment, Partition};
use crate::specials::Specials;
use crate::spm::Prefix;
use crate::vocab::Vocab;

/// A model's tokenizer. Cheap to share between threads by reference; it never changes.
pub struct Tokenizer {
    pub(crate) vocab: Vocab,
    pub(crate) specials: Specials,
    pub(crate) algorithm: Algorithm,
    pub(crate) partition: Partition,
    pub(crate) add_bos: bool,
    pub(crate) add_eos: bool,
    pub(crate) add_sep: bool,
    pub(crate) edges: Edges,
    pub(crate) warnings: Vec<String>,
}

/// What encoding puts around a whole prompt.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Edges {
    pub begin: Option<u32>,
    pub end: Option<u32>,
}

/// How [`Tokenizer::encode`] reads a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Encode {
    /// Adds BOS and EOS where the file asks for them (`add_bos_token`, `add_eos_token`), and never a second time. A
    /// WordPiece vocabulary has `[CLS]` and `[SEP]` in their place, an RWKV one nothing.
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

/// The tokens by which a model is asked for the middle of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FillIn {
    /// In front of what comes before the middle.
    pub prefix: u32,
    /// In front of what comes after it.
    pub suffix: u32,
    /// In front of the middle.
    pub middle: u32,
    /// In front of a repository's name, where the model knows of any.
    pub repository: Option<u32>,
    /// In front of a file's name, where the model knows of any.
    pub file: Option<u32>,
}

impl Tokenizer {
    /// The ids of `text`. Never fails: what no token spells becomes byte tokens, or the unknown token, or (in a
    /// vocabulary that has neither, with a warning at load) nothing.
    pub fn encode(&self, text: &str, options: Encode) -> Vec<u32> {
        let ignored = if options.specials { Kind::UNDEFINED } else { Kind::RESERVED };
        let fragments = self.partition.split(text, &self.vocab, ignored);
        let edge = |id: Option<u32>, there: Option<&Fragment>| {
            id.filter(|&id| options.bos && there != Some(&Fragment::Token(id)))
        };
        let mut ids = Vec::with_capacity(text.len() / 3 + 2);
        ids.extend(edge(self.edges.begin, fragments.first()));
        let mut prefix = Prefix::Space;
        for fragment in &fragments {
            match fragment {
                Fragment::Token(id) => {
                    ids.push(*id);
                    prefix = Prefix::Space;
                }
                Fragment::Text(text) => {
                    self.algorithm.encode(text, prefix, &self.vocab, &mut ids);
                    prefix = Prefix::None;
                }
            }
        }
        ids.extend(edge(self.edges.end, fragments.last()));
        ids
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
        self.algorithm.decode(text)
    }

    /// Whether encoding puts a space before text that follows token `id`, or that follows nothing where it is `None`.
    pub(crate) fn adds_space_after(&self, id: Option<u32>) -> bool {
        self.algorithm.adds_space() && id.is_none_or(|id| self.vocab.kind(id).any(self.algorithm.parting()))
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

    /// The token between two texts, or after one.
    pub fn sep(&self) -> Option<u32> {
        self.specials.sep
    }

    /// The token that stands for a word to be guessed.
    pub fn mask(&self) -> Option<u32> {
        self.specials.mask
    }

    /// The token that fills up batches in training.
    pub fn pad(&self) -> Option<u32> {
        self.specials.pad
    }

    /// Every token after which an answer is over, ascending: EOS, EOT, EOM, and what llama.cpp knows by its text.
    pub fn stop_ids(&self) -> &[u32] {
        &self.specials.stop
    }

    /// The tokens by which the middle of a text is asked for; `None` where one that is needed is missing.
    pub fn fill_in(&self) -> Option<FillIn> {
        let [prefix, suffix, middle, _, repository, file] = self.specials.fill_in;
        Some(FillIn { prefix: prefix?, suffix: suffix?, middle: middle?, repository, file })
    }

    /// Whether token `id` steers the model instead of being text.
    pub fn is_control(&self, id: u32) -> bool {
        self.vocab.kind(id).any(Kind::CONTROL)
    }

    /// `tokenizer.ggml.model`: `llama` (SPM), `gpt2`, `gemma4` or `whitespace` (BPE), `bert` (WordPiece), `t5` (unigram),
    /// `rwkv`, `plamo2`.
    pub fn model_name(&self) -> &'static str {
        self.algorithm.model()
    }

    /// The name of the pre-tokenizer's rules; names for the same rules give the first of them. All but BPE have `default`.
    pub fn pre_name(&self) -> &'static str {
        self.algorithm.pre()
    }

    /// Whether a prompt gets a BOS token.
    pub fn add_bos(&self) -> bool {
        self.add_bos
    }

    /// Whether a prompt gets an EOS token.
    pub fn add_eos(&self) -> bool {
        self.add_eos
    }

    /// Whether a SEP token goes between two texts.
    pub fn add_sep(&self) -> bool {
        self.add_sep
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
