//! A tokenizer from a file's metadata: which keys there are, which are required, what they default to.

use candor_gguf::Metadata;
use std::borrow::Cow;

use crate::bpe::Bpe;
use crate::kind::Kind;
use crate::partition::Partition;
use crate::pre::{DEFAULT, Rules};
use crate::specials::{Defaults, Specials};
use crate::spm::Spm;
use crate::tokenizer::{Algorithm, Tokenizer};
use crate::{Error, vocab::Vocab};

const MODEL: &str = "tokenizer.ggml.model";
const PRE: &str = "tokenizer.ggml.pre";
const TOKENS: &str = "tokenizer.ggml.tokens";
const TYPES: &str = "tokenizer.ggml.token_type";
const SCORES: &str = "tokenizer.ggml.scores";
const MERGES: &str = "tokenizer.ggml.merges";
const ADD_BOS: &str = "tokenizer.ggml.add_bos_token";
const ADD_EOS: &str = "tokenizer.ggml.add_eos_token";
const ADD_SPACE_PREFIX: &str = "tokenizer.ggml.add_space_prefix";

/// The defaults of SentencePiece, for files that do not give the ids.
const SPM_DEFAULTS: Defaults = Defaults { bos: Some(1), eos: Some(2), unk: Some(0) };

impl Tokenizer {
    /// The tokenizer that a file's `tokenizer.ggml.*` keys describe.
    ///
    /// # Errors
    ///
    /// Names the key that is missing, has the wrong type or length, or asks for a tokenizer model or pre-tokenizer that
    /// is not built in. What is only odd goes to [`Tokenizer::warnings`].
    pub fn from_metadata(metadata: &Metadata) -> Result<Tokenizer, Error> {
        let mut warnings = Vec::new();
        let model = metadata.str(MODEL)?.ok_or(Error::Missing { key: MODEL })?;
        let tokens = metadata.strings(TOKENS)?.ok_or(Error::Missing { key: TOKENS })?;
        let mut vocab = match model {
            "llama" | "gpt2" => Vocab::new(tokens, kinds(metadata, tokens.len(), &mut warnings)?)?,
            other => return Err(Error::UnknownModel { name: other.to_owned() }),
        };
        let defaults = if model == "llama" { SPM_DEFAULTS } else { Defaults::default() };
        let specials = Specials::find(metadata, &mut vocab, defaults, &mut warnings)?;
        let (algorithm, add_bos) = if model == "llama" {
            let spm = Spm::new(&vocab, &scores(metadata, vocab.len())?, specials.unk);
            if spm.lacks_bytes() {
                warnings.push("some bytes have no token; characters outside the vocabulary are lost".to_owned());
            }
            (Algorithm::Spm { spm, add_space_prefix: metadata.bool(ADD_SPACE_PREFIX)?.unwrap_or(true) }, true)
        } else {
            let rules = rules(metadata, &mut warnings)?;
            let merges = metadata.strings(MERGES)?.ok_or(Error::Missing { key: MERGES })?;
            let bpe = Bpe::new(&vocab, merges, rules, specials.unk)?;
            let missing = bpe.missing_bytes(&vocab);
            if !missing.is_empty() {
                warnings.push(format!("bytes without a token, lost when they occur: {missing:02x?}"));
            }
            (Algorithm::Bpe(bpe), rules.add_bos)
        };
        let bos_key = "tokenizer.ggml.bos_token_id";
        let add_bos = edge(metadata, ADD_BOS, add_bos, specials.bos, bos_key, &mut warnings)?;
        let eos_key = "tokenizer.ggml.eos_token_id";
        let add_eos = edge(metadata, ADD_EOS, false, specials.eos, eos_key, &mut warnings)?;
        let partition = Partition::new(&vocab);
        strip_after_phi3_specials(metadata, &mut vocab)?;
        Ok(Tokenizer { vocab, specials, algorithm, partition, add_bos, add_eos, warnings })
    }
}

/// The kind of each token.
fn kinds(metadata: &Metadata, tokens: usize, warnings: &mut Vec<String>) -> Result<Vec<Kind>, Error> {
    let Some(types) = metadata.i32s(TYPES)? else {
        warnings.push(format!("{TYPES} is missing: every token is taken for ordinary text"));
        return Ok(vec![Kind::NORMAL; tokens]);
    };
    let types = types.get(..tokens).ok_or(Error::Length { key: TYPES, expected: tokens, got: types.len() })?;
    Ok(types.iter().map(|&value| Kind::from_gguf(value)).collect())
}

/// The score of each token; files hold them as f32, a few as i32.
fn scores(metadata: &Metadata, tokens: usize) -> Result<Cow<'_, [f32]>, Error> {
    let scores = match metadata.f32s(SCORES) {
        Ok(scores) => Cow::Borrowed(scores.ok_or(Error::Missing { key: SCORES })?),
        Err(not_floats) => match metadata.i32s(SCORES) {
            Ok(Some(scores)) => Cow::Owned(scores.iter().map(|&score| score as f32).collect()),
            _ => return Err(not_floats.into()),
        },
    };
    if scores.len() < tokens {
        return Err(Error::Length { key: SCORES, expected: tokens, got: scores.len() });
    }
    Ok(scores)
}

/// The pre-tokenizer's rules.
fn rules(metadata: &Metadata, warnings: &mut Vec<String>) -> Result<&'static Rules, Error> {
    match metadata.str(PRE)? {
        None | Some("") => {
            warnings.push(format!(
                "{PRE} is missing: the default pre-tokenizer may split text otherwise than the model's own"
            ));
            Ok(&DEFAULT)
        }
        Some(name) => Rules::find(name).ok_or_else(|| Error::UnknownPreTokenizer { name: name.to_owned() }),
    }
}

/// The token that goes to one end of every text, if one does.
fn edge(
    metadata: &Metadata,
    flag: &'static str,
    default: bool,
    id: Option<u32>,
    key: &'static str,
    warnings: &mut Vec<String>,
) -> Result<bool, Error> {
    match (metadata.bool(flag)?, id) {
        (Some(true), None) => Err(Error::NoSuchToken { flag, key }),
        (None, None) if default => {
            warnings.push(format!("{key} is missing: no such token is added"));
            Ok(false)
        }
        (wanted, _) => Ok(wanted.unwrap_or(default)),
    }
}

/// Phi-3's special tokens take the white space after them along. GGUF has no key for it: llama.cpp goes by the model's
/// name, and so must we to get its ids.
fn strip_after_phi3_specials(metadata: &Metadata, vocab: &mut Vocab) -> Result<(), Error> {
    let name = metadata.str("general.name")?.unwrap_or_default().to_ascii_lowercase();
    if !name.contains("phi-3") && !name.contains("phi3") {
        return Ok(());
    }
    let specials: Vec<u32> = vocab.ids_of(Kind::SPECIAL).chain(vocab.id("</s>")).collect();
    for id in specials {
        if !matches!(vocab.text(id), Some("<unk>" | "<s>" | "<|endoftext|>")) {
            vocab.set_kind(id, vocab.kind(id).with(Kind::RSTRIP));
        }
    }
    Ok(())
}
