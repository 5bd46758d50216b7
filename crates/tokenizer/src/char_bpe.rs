//! BPE over characters, as Gemma 4, Sarvam and the word-level vocabularies of Jina have it: a space is spelled U+2581,
//! there is no byte alphabet, and what no token spells becomes byte tokens. The byte-level kind is `bpe`.

use hashbrown::{HashMap, HashSet};

use crate::bpe::{Merge, merges_of};
use crate::merge::Merger;
use crate::pre::{Alphabet, Rules};
use crate::spm::SPACE;
use crate::words::Words;
use crate::{Error, vocab::Vocab};

/// A symbol that neither tokens nor merges have.
const UNKNOWN: u32 = u32::MAX;

/// The merges of such a vocabulary. Symbols are numbered like tokens; those that are no token follow after.
pub(crate) struct CharBpe {
    pub rules: &'static Rules,
    /// Rank and result of each pair of symbols.
    pairs: HashMap<(u32, u32), (u32, u32)>,
    /// The characters that are no token, and yet a part of merges.
    strangers: HashMap<char, u32>,
    /// Characters that some merge has before a U+2581: text can be cut before a space that follows any other.
    before_space: HashSet<char>,
    /// The token of each byte.
    bytes: Box<[Option<u32>; 256]>,
    white: White,
}

/// What becomes of white space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum White {
    /// A space is U+2581, the rest is as it is.
    Escaped,
    /// It parts words and is dropped.
    Dropped,
    /// The same, and the words are in lower case.
    DroppedAndLowered,
}

impl CharBpe {
    /// From the merge list, best first.
    pub fn new(vocab: &Vocab, merges: &[String], rules: &'static Rules, white: White) -> Result<CharBpe, Error> {
        let mut strangers = HashMap::new();
        let mut symbol = |text: &str| {
            vocab.id(text).unwrap_or_else(|| {
                let next = (vocab.len() + strangers.len()) as u32;
                *strangers.entry_ref(text).or_insert(next)
            })
        };
        let mut before_space = HashSet::new();
        let mut pairs = HashMap::with_capacity(merges.len());
        let mut joined = String::new();
        for merge in merges_of(merges) {
            let Merge { rank, left, right } = merge?;
            joined.clear();
            joined.push_str(left);
            joined.push_str(right);
            let spaces = joined.match_indices(SPACE);
            before_space.extend(spaces.filter_map(|(at, _)| joined[..at].chars().next_back()));
            let pair = (symbol(left), symbol(right));
            let result = symbol(&joined);
            pairs.entry(pair).or_insert((rank, result));
        }
        let single = |text: &str| {
            let mut chars = text.chars();
            chars.next().filter(|_| chars.next().is_none())
        };
        let strangers = strangers.iter().filter_map(|(text, &id)| Some((single(text)?, id))).collect();
        let bytes = std::array::from_fn(|byte| vocab.id(&format!("<0x{byte:02X}>")));
        Ok(CharBpe { rules, pairs, strangers, before_space, bytes: Box::new(bytes), white })
    }

    /// Whether some byte has no token.
    pub fn lacks_bytes(&self) -> bool {
        self.bytes.contains(&None)
    }

    /// Appends the ids of `text`.
    pub fn encode(&self, text: &str, vocab: &Vocab, out: &mut Vec<u32>) {
        let spelled: String = match self.white {
            White::Escaped => text.chars().map(|c| if c == ' ' { SPACE } else { c }).collect(),
            White::Dropped => text.to_owned(),
            White::DroppedAndLowered => text.chars().map(lowered).collect(),
        };
        let mut words = Words::new(out);
        let mut merger = Merger::default();
        self.rules.split(&spelled, &mut |piece| {
            if self.white != White::Escaped && piece.starts_with(char::is_whitespace) {
                return;
            }
            for word in self.words(piece) {
                words.append(word, |out| self.encode_word(word, vocab, &mut merger, out));
            }
        });
    }

    /// The parts of a piece over whose ends no merge reaches.
    fn words<'a>(&'a self, piece: &'a str) -> impl Iterator<Item = &'a str> {
        let (mut start, mut previous) = (0, SPACE);
        let mut places = piece.char_indices();
        std::iter::from_fn(move || {
            for (at, c) in places.by_ref() {
                let cut = c == SPACE && at > start && !self.before_space.contains(&previous);
                previous = c;
                if cut {
                    let word = &piece[start..at];
                    start = at;
                    return Some(word);
                }
            }
            let last = &piece[start..];
            start = piece.len();
            (!last.is_empty()).then_some(last)
        })
    }

    fn encode_word(&self, word: &str, vocab: &Vocab, merger: &mut Merger, out: &mut Vec<u32>) {
        let line_ends = self.rules.alphabet == Alphabet::CharactersAndLineEnds && word.starts_with('\n');
        if (self.rules.ignore_merges || line_ends)
            && let Some(id) = vocab.id_of_plain(word)
        {
            return out.push(id);
        }
        merger.clear();
        for c in word.chars() {
            let id = vocab.id_of_plain(c.encode_utf8(&mut [0; 4]));
            merger.push(c.len_utf8(), id.or_else(|| self.strangers.get(&c).copied()).unwrap_or(UNKNOWN));
        }
        merger.run(|left, right| self.pairs.get(&(left.id, right.id)).copied());
        for symbol in merger.symbols() {
            if (symbol.id as usize) < vocab.len() {
                out.push(symbol.id);
            } else {
                let bytes = word[symbol.start..symbol.start + symbol.len].bytes();
                out.extend(bytes.filter_map(|byte| self.bytes[usize::from(byte)]));
            }
        }
    }
}

/// One character for one, as BERT's vocabularies were made.
pub(crate) fn lowered(c: char) -> char {
    c.to_lowercase().next().unwrap_or(c)
}
