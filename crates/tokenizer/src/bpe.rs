//! Byte-level BPE: a piece of text starts as its bytes, and pairs are joined in the order of the merge list. How text
//! becomes pieces is in `pre`.

use hashbrown::HashMap;

use crate::byte_alphabet::{byte_of, char_of, spell};
use crate::merge::Merger;
use crate::pre::Rules;
use crate::words::Words;
use crate::{Error, vocab::Vocab};

/// Bytes that UTF-8 never holds; a vocabulary may lack tokens for them.
const NEVER_IN_UTF8: [u8; 13] = [0xc0, 0xc1, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9, 0xfa, 0xfb, 0xfc, 0xfd, 0xfe, 0xff];

/// One item of a merge list.
pub(crate) struct Merge<'a> {
    pub rank: u32,
    pub left: &'a str,
    pub right: &'a str,
}

/// The items of a merge list such as `h e`, best first. A symbol may begin with a space, but not be empty.
pub(crate) fn merges_of(merges: &[String]) -> impl Iterator<Item = Result<Merge<'_>, Error>> {
    (0u32..).zip(merges).map(|(rank, merge)| {
        let first = merge.chars().next().map_or(0, char::len_utf8);
        let Some(space) = merge[first..].find(' ') else {
            return Err(Error::Merge { index: rank as usize, text: merge.clone() });
        };
        let (left, right) = merge.split_at(first + space);
        Ok(Merge { rank, left, right: &right[1..] })
    })
}

/// The merges of a BPE vocabulary. Symbols are numbered like tokens; those that are no token follow after.
pub(crate) struct Bpe {
    pub rules: &'static Rules,
    /// Rank and result of each pair of symbols.
    pairs: HashMap<(u32, u32), (u32, u32)>,
    /// The symbol of each byte.
    bytes: Box<[u32; 256]>,
    /// Stands for bytes without a token.
    unknown: Option<u32>,
}

impl Bpe {
    /// From the merge list, best first: items such as `h e` in the byte alphabet.
    pub fn new(vocab: &Vocab, merges: &[String], rules: &'static Rules, unknown: Option<u32>) -> Result<Bpe, Error> {
        let mut strangers = HashMap::new();
        let mut symbol = |text: &str| {
            vocab.id(text).unwrap_or_else(|| {
                let next = (vocab.len() + strangers.len()) as u32;
                *strangers.entry_ref(text).or_insert(next)
            })
        };
        let mut bytes = Box::new([0; 256]);
        for byte in 0..=255 {
            bytes[usize::from(byte)] = symbol(char_of(byte).encode_utf8(&mut [0; 4]));
        }
        let mut pairs = HashMap::with_capacity(merges.len());
        let mut joined = String::new();
        for merge in merges_of(merges) {
            let Merge { rank, left, right } = merge?;
            joined.clear();
            joined.push_str(left);
            joined.push_str(right);
            let pair = (symbol(left), symbol(right));
            let result = symbol(&joined);
            pairs.entry(pair).or_insert((rank, result));
        }
        Ok(Bpe { rules, pairs, bytes, unknown })
    }

    /// Bytes that text can hold and no token stands for.
    pub fn missing_bytes(&self, vocab: &Vocab) -> Vec<u8> {
        let missing = |byte: &u8| self.bytes[usize::from(*byte)] as usize >= vocab.len();
        (0..=255).filter(|byte| missing(byte) && !NEVER_IN_UTF8.contains(byte)).collect()
    }

    /// Appends the ids of `text`.
    pub fn encode(&self, text: &str, vocab: &Vocab, out: &mut Vec<u32>) {
        let mut words = Words::new(out);
        let mut merger = Merger::default();
        let mut spelling = String::new();
        self.rules.split(text, &mut |word| {
            words.append(word, |out| self.encode_word(word.as_bytes(), vocab, &mut merger, &mut spelling, out));
        });
    }

    fn encode_word(&self, word: &[u8], vocab: &Vocab, merger: &mut Merger, spelling: &mut String, out: &mut Vec<u32>) {
        if self.rules.ignore_merges {
            spelling.clear();
            spell(word, spelling);
            if let Some(id) = vocab.id_of_plain(spelling) {
                return out.push(id);
            }
        }
        merger.clear();
        word.iter().for_each(|&byte| merger.push(1, self.bytes[usize::from(byte)]));
        merger.run(|left, right| self.pairs.get(&(left.id, right.id)).copied());
        for symbol in merger.symbols() {
            if (symbol.id as usize) < vocab.len() {
                out.push(symbol.id);
                continue;
            }
            let bytes = word[symbol.start..symbol.start + symbol.len].iter();
            let ids = bytes.map(|&byte| self.bytes[usize::from(byte)]);
            out.extend(ids.filter_map(|id| if (id as usize) < vocab.len() { Some(id) } else { self.unknown }));
        }
    }

    /// The bytes of an ordinary token's text. A character outside the byte alphabet stands for itself.
    pub fn decode(text: &str) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(text.len());
        for c in text.chars() {
            match byte_of(c) {
                Some(byte) => bytes.push(byte),
                None => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        bytes
    }
}
