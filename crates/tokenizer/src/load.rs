//! A tokenizer from a file's metadata: which kind `tokenizer.ggml.model` names, and what each kind needs and defaults to.
//! How single keys are read is in `keys`.

use candor_gguf::Metadata;

use crate::algorithm::Algorithm;
use crate::bpe::Bpe;
use crate::char_bpe::{CharBpe, White};
use crate::keys;
use crate::partition::Partition;
use crate::plamo2::Plamo2;
use crate::pre::{AddBos, Alphabet, Rules};
use crate::rwkv::Rwkv;
use crate::specials::{Defaults, Specials};
use crate::spm::Spm;
use crate::tokenizer::{Edges, Tokenizer};
use crate::unigram::{Spacing, Unigram};
use crate::wordpiece::{Cleaning, WordPiece};
use crate::{Error, vocab::Vocab};

/// The kinds of vocabularies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Model {
    Spm,
    Gpt2,
    Gemma4,
    Whitespace,
    WordPiece,
    Unigram,
    Rwkv,
    Plamo2,
}

/// What a file asks for where it is silent.
#[derive(Clone, Copy)]
struct Flags {
    bos: bool,
    eos: bool,
    sep: bool,
}

const NO_FLAGS: Flags = Flags { bos: false, eos: false, sep: false };

impl Model {
    fn find(name: &str) -> Result<Model, Error> {
        let needs = match name {
            "llama" => return Ok(Model::Spm),
            "gpt2" => return Ok(Model::Gpt2),
            "gemma4" => return Ok(Model::Gemma4),
            "whitespace" => return Ok(Model::Whitespace),
            "bert" => return Ok(Model::WordPiece),
            "t5" => return Ok(Model::Unigram),
            "rwkv" => return Ok(Model::Rwkv),
            "plamo2" => return Ok(Model::Plamo2),
            "hybriddna" => "the six-letter words of DNA between <dna> and </dna> beside its BPE",
            "no_vocab" | "none" => "a vocabulary, which this file says it does not have",
            _ => "an algorithm that is neither SPM, BPE, WordPiece, unigram, RWKV nor PLaMo 2",
        };
        Err(Error::UnknownModel { name: name.to_owned(), needs })
    }

    /// The ids of special tokens that files of this kind leave out.
    fn defaults(self) -> Defaults {
        let none = Defaults::default();
        match self {
            Model::Spm => Defaults { bos: Some(1), eos: Some(2), unk: Some(0), ..none },
            Model::WordPiece => {
                Defaults { bos: Some(101), unk: Some(100), sep: Some(102), pad: Some(0), mask: Some(103), ..none }
            }
            Model::Unigram => Defaults { eos: Some(1), unk: Some(2), pad: Some(0), ..none },
            Model::Plamo2 => Defaults { bos: Some(1), eos: Some(2), unk: Some(0), pad: Some(3), ..none },
            Model::Gpt2 | Model::Gemma4 | Model::Whitespace | Model::Rwkv => none,
        }
    }
}

impl Tokenizer {
    /// The tokenizer that a file's `tokenizer.ggml.*` keys describe.
    ///
    /// # Errors
    ///
    /// Names the key that is missing, has the wrong type or length, or asks for a tokenizer model or pre-tokenizer that
    /// is not built in. What is only odd goes to [`Tokenizer::warnings`].
    pub fn from_metadata(metadata: &Metadata) -> Result<Tokenizer, Error> {
        let mut warnings = Vec::new();
        let model = Model::find(metadata.str(keys::MODEL)?.ok_or(Error::Missing { key: keys::MODEL })?)?;
        let tokens = metadata.strings(keys::TOKENS)?.ok_or(Error::Missing { key: keys::TOKENS })?;
        let mut vocab = Vocab::new(tokens, keys::kinds(metadata, tokens.len(), &mut warnings)?)?;
        let specials = Specials::find(metadata, &mut vocab, model.defaults(), &mut warnings)?;
        let source = Source { metadata, vocab: &vocab, unknown: specials.unk };
        let (algorithm, flags) = source.algorithm(model, &mut warnings)?;
        let mut edge = |flag, default, id, key| keys::edge(metadata, flag, default, (id, key), &mut warnings);
        let always = matches!(&algorithm, Algorithm::CharBpe { bpe, .. } if bpe.rules.add_bos == AddBos::Always);
        let add_bos = edge(keys::ADD_BOS, flags.bos, specials.bos, "tokenizer.ggml.bos_token_id")?
            || always && specials.bos.is_some();
        let eos = specials.eos.or(specials.sep.filter(|_| model == Model::WordPiece));
        let add_eos = edge(keys::ADD_EOS, flags.eos, eos, "tokenizer.ggml.eos_token_id")?;
        let add_sep = edge(keys::ADD_SEP, flags.sep, specials.sep, "tokenizer.ggml.seperator_token_id")?;
        let edges = match model {
            // As llama.cpp does it, whatever the flags say.
            Model::WordPiece => Edges { begin: specials.bos, end: specials.sep },
            Model::Rwkv | Model::Plamo2 => Edges::default(),
            _ => Edges { begin: specials.bos.filter(|_| add_bos), end: specials.eos.filter(|_| add_eos) },
        };
        let partition = Partition::new(&vocab);
        keys::strip_around_specials(metadata, &mut vocab)?;
        Ok(Tokenizer { vocab, specials, algorithm, partition, add_bos, add_eos, add_sep, edges, warnings })
    }
}

/// What an algorithm is made of.
struct Source<'a> {
    metadata: &'a Metadata,
    vocab: &'a Vocab,
    unknown: Option<u32>,
}

impl Source<'_> {
    fn algorithm(&self, model: Model, warnings: &mut Vec<String>) -> Result<(Algorithm, Flags), Error> {
        let Source { metadata, vocab, unknown } = *self;
        let scores = || keys::scores(metadata, vocab.len());
        let flag = |key, default| Ok::<_, Error>(metadata.bool(key)?.unwrap_or(default));
        let lacks_bytes = |warnings: &mut Vec<String>| {
            warnings.push("some bytes have no token; characters outside the vocabulary are lost".to_owned());
        };
        Ok(match model {
            Model::Spm => {
                let spm = Spm::new(vocab, &scores()?, unknown);
                if spm.lacks_bytes() {
                    lacks_bytes(warnings);
                }
                let add_space_prefix = flag(keys::ADD_SPACE_PREFIX, true)?;
                (Algorithm::Spm { spm, add_space_prefix }, Flags { bos: true, ..NO_FLAGS })
            }
            Model::Gpt2 => self.bpe(keys::rules(metadata, warnings)?, model, warnings)?,
            Model::Whitespace => self.bpe(keys::rules(metadata, warnings)?, model, warnings)?,
            Model::Gemma4 => self.bpe(Rules::find("gemma4").expect("in the table"), model, warnings)?,
            Model::WordPiece => {
                let lowercase = flag(keys::LOWERCASE, true)?;
                let cleaning = Cleaning { lowercase, strip_accents: flag(keys::STRIP_ACCENTS, lowercase)? };
                let flags = Flags { bos: true, eos: false, sep: true };
                (Algorithm::WordPiece(WordPiece::new(vocab, unknown, cleaning)), flags)
            }
            Model::Unigram => {
                let spacing = Spacing {
                    prefix: flag(keys::ADD_SPACE_PREFIX, false)?,
                    merge: flag(keys::REMOVE_EXTRA_WHITESPACES, false)?,
                };
                let unigram = Unigram::new(vocab, &scores()?, unknown, keys::charsmap(metadata)?, spacing);
                (Algorithm::Unigram(unigram), Flags { eos: true, ..NO_FLAGS })
            }
            Model::Rwkv => (Algorithm::Rwkv(Rwkv::new(vocab, unknown)), NO_FLAGS),
            Model::Plamo2 => {
                let plamo2 = Plamo2::new(vocab, &scores()?);
                if plamo2.lacks_bytes() {
                    lacks_bytes(warnings);
                }
                (Algorithm::Plamo2(plamo2), NO_FLAGS)
            }
        })
    }

    /// BPE by `rules`, over bytes or characters.
    fn bpe(
        &self,
        rules: &'static Rules,
        model: Model,
        warnings: &mut Vec<String>,
    ) -> Result<(Algorithm, Flags), Error> {
        let Source { metadata, vocab, unknown } = *self;
        let flags = Flags { bos: rules.add_bos == AddBos::Yes, eos: false, sep: rules.add_sep };
        let merges = match metadata.strings(keys::MERGES)? {
            Some(merges) => merges,
            // Kimi K2's pieces are whole tokens or bytes.
            None if rules.names.contains(&"kimi-k2") => &[],
            None => return Err(Error::Missing { key: keys::MERGES }),
        };
        if rules.alphabet == Alphabet::Bytes {
            let bpe = Bpe::new(vocab, merges, rules, unknown)?;
            let missing = bpe.missing_bytes(vocab);
            if !missing.is_empty() {
                warnings.push(format!("bytes without a token, lost when they occur: {missing:02x?}"));
            }
            return Ok((Algorithm::Bpe(bpe), flags));
        }
        let (white, name) = match model {
            Model::Whitespace if metadata.bool(keys::LOWERCASE)?.unwrap_or(false) => {
                (White::DroppedAndLowered, "whitespace")
            }
            Model::Whitespace => (White::Dropped, "whitespace"),
            Model::Gemma4 => (White::Escaped, "gemma4"),
            _ => (White::Escaped, "gpt2"),
        };
        let bpe = CharBpe::new(vocab, merges, rules, white)?;
        if bpe.lacks_bytes() {
            warnings.push("some bytes have no token; characters outside the vocabulary are lost".to_owned());
        }
        Ok((Algorithm::CharBpe { bpe, model: name }, flags))
    }
}
