//! The metadata keys of a tokenizer, read one by one: types, lengths, and what files leave out or spell oddly.

use candor_gguf::{Array, Metadata, Value};
use std::borrow::Cow;

use crate::charsmap::Charsmap;
use crate::kind::Kind;
use crate::pre::Rules;
use crate::rules::DEFAULT;
use crate::{Error, vocab::Vocab};

pub(crate) const MODEL: &str = "tokenizer.ggml.model";
pub(crate) const TOKENS: &str = "tokenizer.ggml.tokens";
pub(crate) const MERGES: &str = "tokenizer.ggml.merges";
pub(crate) const ADD_BOS: &str = "tokenizer.ggml.add_bos_token";
pub(crate) const ADD_EOS: &str = "tokenizer.ggml.add_eos_token";
pub(crate) const ADD_SEP: &str = "tokenizer.ggml.add_sep_token";
pub(crate) const ADD_SPACE_PREFIX: &str = "tokenizer.ggml.add_space_prefix";
pub(crate) const REMOVE_EXTRA_WHITESPACES: &str = "tokenizer.ggml.remove_extra_whitespaces";
pub(crate) const LOWERCASE: &str = "tokenizer.ggml.normalizer.lowercase";
pub(crate) const STRIP_ACCENTS: &str = "tokenizer.ggml.normalizer.strip_accents";
const PRE: &str = "tokenizer.ggml.pre";
const TYPES: &str = "tokenizer.ggml.token_type";
const SCORES: &str = "tokenizer.ggml.scores";
const CHARSMAP: &str = "tokenizer.ggml.precompiled_charsmap";

/// The kind of each token.
pub(crate) fn kinds(metadata: &Metadata, tokens: usize, warnings: &mut Vec<String>) -> Result<Vec<Kind>, Error> {
    let Some(types) = metadata.i32s(TYPES)? else {
        warnings.push(format!("{TYPES} is missing: every token is taken for ordinary text"));
        return Ok(vec![Kind::NORMAL; tokens]);
    };
    let types = types.get(..tokens).ok_or(Error::Length { key: TYPES, expected: tokens, got: types.len() })?;
    Ok(types.iter().map(|&value| Kind::from_gguf(value)).collect())
}

/// The score of each token; files hold them as f32, a few as i32.
pub(crate) fn scores(metadata: &Metadata, tokens: usize) -> Result<Cow<'_, [f32]>, Error> {
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
pub(crate) fn rules(metadata: &Metadata, warnings: &mut Vec<String>) -> Result<&'static Rules, Error> {
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

/// The map of characters, if there is one. It is an array of bytes, signed or not.
pub(crate) fn charsmap(metadata: &Metadata) -> Result<Option<Charsmap>, Error> {
    let bytes = match metadata.get(CHARSMAP) {
        None => return Ok(None),
        Some(Value::Array(Array::U8(bytes))) => Cow::Borrowed(bytes.as_slice()),
        Some(Value::Array(Array::I8(bytes))) => Cow::Owned(bytes.iter().map(|&byte| byte as u8).collect()),
        Some(_) => {
            let wrong = metadata.i32s(CHARSMAP).err().map(Error::from);
            return Err(wrong.unwrap_or(Error::Charsmap { got: 0 }));
        }
    };
    Charsmap::new(&bytes).map(Some).ok_or(Error::Charsmap { got: bytes.len() })
}

/// Whether the token of a key goes to one end of every text. `token` is its id, if there is one, and its key.
pub(crate) fn edge(
    metadata: &Metadata,
    flag: &'static str,
    default: bool,
    token: (Option<u32>, &'static str),
    warnings: &mut Vec<String>,
) -> Result<bool, Error> {
    let (id, key) = token;
    match (metadata.bool(flag)?, id) {
        (Some(true), None) => Err(Error::NoSuchToken { flag, key }),
        (None, None) if default => {
            warnings.push(format!("{key} is missing: no such token is added"));
            Ok(false)
        }
        (wanted, _) => Ok(wanted.unwrap_or(default)),
    }
}

/// Some special tokens take the white space beside them along. GGUF has no key for it: llama.cpp goes by names, and so
/// must we to get its ids.
pub(crate) fn strip_around_specials(metadata: &Metadata, vocab: &mut Vocab) -> Result<(), Error> {
    let text = |key| Ok::<_, Error>(metadata.str(key)?.unwrap_or_default());
    let (name, pre) = (text("general.name")?.to_ascii_lowercase(), text(PRE)?);
    let architecture = text("general.architecture")?;
    let is = |text: &str, names: &[&str]| names.iter().any(|name| text.contains(name));
    let (ids, flag): (Vec<u32>, Kind) = if is(pre, &["jina-v2-de", "jina-v2-es", "jina-v2-code"])
        || is(architecture, &["nomic-bert-moe", "jina-bert-v3"])
    {
        (vocab.id("<mask>").into_iter().collect(), Kind::LSTRIP)
    } else if is(&name, &["phi-3", "phi3"]) {
        let plain = |id: &u32| matches!(vocab.text(*id), Some("<unk>" | "<s>" | "<|endoftext|>"));
        (vocab.ids_of(Kind::SPECIAL).chain(vocab.id("</s>")).filter(|id| !plain(id)).collect(), Kind::RSTRIP)
    } else if is(&name, &["modern-bert"]) {
        (vocab.id("[MASK]").into_iter().collect(), Kind::LSTRIP)
    } else {
        return Ok(());
    };
    ids.iter().for_each(|&id| vocab.set_kind(id, vocab.kind(id).with(flag)));
    Ok(())
}
