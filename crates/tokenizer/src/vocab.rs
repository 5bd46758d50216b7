//! The token list: text of an id, id of a text, what kind each token is. It does not know how text is split.

use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher;

use crate::{Error, kind::Kind};

/// No vocabulary has more tokens; the largest of today has 262,144.
pub(crate) const MAX_TOKENS: usize = 1 << 24;
/// No vocabulary has more text.
const MAX_TEXT_BYTES: usize = 1 << 30;

/// The tokens of a vocabulary. Texts are unique.
pub(crate) struct Vocab {
    texts: String,
    /// Where each token's text ends in `texts`.
    ends: Vec<u32>,
    kinds: Vec<Kind>,
    ids: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Vocab {
    /// From the texts in the order of their ids; `kinds` has one item for each. An empty text becomes `[EMPTY_id]`, as
    /// in llama.cpp, since an empty token would match everywhere.
    pub fn new(tokens: &[String], kinds: Vec<Kind>) -> Result<Vocab, Error> {
        if tokens.len() > MAX_TOKENS {
            return Err(Error::TooLarge { unit: "tokens", limit: MAX_TOKENS, got: tokens.len() });
        }
        let bytes: usize = tokens.iter().map(String::len).sum();
        if bytes > MAX_TEXT_BYTES {
            return Err(Error::TooLarge { unit: "bytes of text", limit: MAX_TEXT_BYTES, got: bytes });
        }
        let mut vocab = Vocab {
            texts: String::with_capacity(bytes),
            ends: Vec::with_capacity(tokens.len()),
            kinds,
            ids: HashTable::with_capacity(tokens.len()),
            hasher: DefaultHashBuilder::default(),
        };
        for (id, token) in (0u32..).zip(tokens) {
            if let Some(first) = vocab.id(token) {
                return Err(Error::DuplicateToken { first, second: id, text: token.clone() });
            }
            if token.is_empty() {
                vocab.texts.push_str(&format!("[EMPTY_{id}]"));
            } else {
                vocab.texts.push_str(token);
            }
            vocab.ends.push(vocab.texts.len() as u32);
            vocab.index(id);
        }
        Ok(vocab)
    }

    fn index(&mut self, id: u32) {
        let (texts, ends, hasher) = (&self.texts, &self.ends, &self.hasher);
        let hash_of = |&id: &u32| hasher.hash_one(slice(texts, ends, id as usize));
        self.ids.insert_unique(hash_of(&id), id, hash_of);
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// The text of token `id` as the file spells it.
    pub fn text(&self, id: u32) -> Option<&str> {
        ((id as usize) < self.len()).then(|| slice(&self.texts, &self.ends, id as usize))
    }

    /// The token whose text is `text`.
    pub fn id(&self, text: &str) -> Option<u32> {
        let found =
            self.ids.find(self.hasher.hash_one(text), |&id| slice(&self.texts, &self.ends, id as usize) == text);
        found.copied()
    }

    /// The token whose text is `text`, if plain text may become it: a control token must not be reachable from a
    /// user's words, nor a byte token from its spelling.
    pub fn id_of_plain(&self, text: &str) -> Option<u32> {
        let plain = |id: &u32| !self.kind(*id).any(Kind::RESERVED.with(Kind::BYTE));
        self.id(text).filter(plain)
    }

    /// The kind of token `id`; undefined for an id that is no token.
    pub fn kind(&self, id: u32) -> Kind {
        self.kinds.get(id as usize).copied().unwrap_or(Kind::UNDEFINED)
    }

    /// Changes the kind of token `id`, which is in the vocabulary.
    pub fn set_kind(&mut self, id: u32, kind: Kind) {
        self.kinds[id as usize] = kind;
    }

    /// All ids of the given kinds, ascending.
    pub fn ids_of(&self, kinds: Kind) -> impl Iterator<Item = u32> + '_ {
        (0u32..).zip(&self.kinds).filter(move |(_, kind)| kind.any(kinds)).map(|(id, _)| id)
    }
}

fn slice<'a>(texts: &'a str, ends: &[u32], id: usize) -> &'a str {
    let start = if id == 0 { 0 } else { ends[id - 1] as usize };
    &texts[start..ends[id] as usize]
}
