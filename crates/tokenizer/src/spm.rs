//! SentencePiece's BPE as llama.cpp does it: text starts as its characters, and the pair whose joined text is the token
//! with the best score is joined first. Spaces are spelled U+2581. What no token spells becomes byte tokens.

use hashbrown::HashSet;

use crate::merge::Merger;
use crate::vocab::Vocab;
use crate::words::Words;

/// How the vocabulary spells a space.
pub(crate) const SPACE: char = '\u{2581}';

/// Number of a symbol that is a character not looked up yet.
const CHARACTER: u32 = u32::MAX;

/// What SPM needs to know besides the token list.
pub(crate) struct Spm {
    /// Rank of each token: the higher its score, the lower.
    ranks: Vec<u32>,
    /// Characters that some token has before a U+2581. Between any other character and a space no token reaches over,
    /// so text can be cut there without changing a single merge.
    before_space: HashSet<char>,
    /// The token of each byte.
    bytes: Box<[Option<u32>; 256]>,
    /// Stands for characters that neither tokens nor byte tokens spell.
    unknown: Option<u32>,
}

/// Whether a space that is not in the text goes before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Prefix {
    Space,
    None,
}

/// Allocations that are kept from word to word.
#[derive(Default)]
struct Scratch {
    merger: Merger,
    spelling: String,
}

impl Spm {
    /// `scores` has one item for each token.
    pub fn new(vocab: &Vocab, scores: &[f32], unknown: Option<u32>) -> Spm {
        let mut before_space = HashSet::new();
        for text in (0..vocab.len() as u32).filter_map(|id| vocab.text(id)) {
            let spaces = text.match_indices(SPACE);
            before_space.extend(spaces.filter_map(|(at, _)| text[..at].chars().next_back()));
        }
        let mut bytes = Box::new([None; 256]);
        for byte in 0..=255u8 {
            let character = || byte.is_ascii().then(|| vocab.id_of_plain(char::from(byte).encode_utf8(&mut [0])))?;
            bytes[usize::from(byte)] = vocab.id(&format!("<0x{byte:02X}>")).or_else(character);
        }
        Spm { ranks: scores.iter().map(|&score| rank(score)).collect(), before_space, bytes, unknown }
    }

    /// Whether some byte has no token.
    pub fn lacks_bytes(&self) -> bool {
        self.bytes.contains(&None)
    }

    /// Appends the ids of `text`, which is not empty.
    pub fn encode(&self, text: &str, prefix: Prefix, vocab: &Vocab, out: &mut Vec<u32>) {
        let mut words = Words::new(out);
        let mut scratch = Scratch::default();
        let mut start = 0;
        let mut previous = SPACE;
        for (at, c) in text.char_indices() {
            let c = spelled(c);
            if c == SPACE && at > start && !self.before_space.contains(&previous) {
                self.encode_word(&text[start..at], prefix, start, vocab, &mut words, &mut scratch);
                start = at;
            }
            previous = c;
        }
        self.encode_word(&text[start..], prefix, start, vocab, &mut words, &mut scratch);
    }

    /// `start` is where `word` starts in the text: only the first one can get the prefix.
    fn encode_word<'a>(
        &self,
        word: &'a str,
        prefix: Prefix,
        start: usize,
        vocab: &Vocab,
        words: &mut Words<'a, '_>,
        scratch: &mut Scratch,
    ) {
        if start == 0 && prefix == Prefix::Space {
            self.merge(&[" ", word], vocab, scratch, words.unseen());
        } else {
            words.append(word, |out| self.merge(&[word], vocab, scratch, out));
        }
    }

    fn merge(&self, parts: &[&str], vocab: &Vocab, scratch: &mut Scratch, out: &mut Vec<u32>) {
        let Scratch { merger, spelling } = scratch;
        merger.clear();
        spelling.clear();
        for c in parts.iter().flat_map(|part| part.chars()).map(spelled) {
            spelling.push(c);
            merger.push(c.len_utf8(), CHARACTER);
        }
        merger.run(|left, right| {
            let id = vocab.id_of_plain(&spelling[left.start..right.start + right.len])?;
            Some((self.ranks[id as usize], id))
        });
        for symbol in merger.symbols() {
            let text = &spelling[symbol.start..symbol.start + symbol.len];
            if symbol.id != CHARACTER {
                out.push(symbol.id);
            } else if let Some(id) = vocab.id_of_plain(text) {
                out.push(id);
            } else {
                self.spell_out(text, out);
            }
        }
    }

    /// Appends the byte tokens of a character, or the unknown token where one is missing.
    fn spell_out(&self, character: &str, out: &mut Vec<u32>) {
        let start = out.len();
        for byte in character.bytes() {
            match self.bytes[usize::from(byte)] {
                Some(id) => out.push(id),
                None => {
                    out.truncate(start);
                    return out.extend(self.unknown);
                }
            }
        }
    }
}

fn spelled(c: char) -> char {
    if c == ' ' { SPACE } else { c }
}

/// Orders scores as integers, best first; equal scores (0 and -0 too) have equal ranks, NaN comes last.
fn rank(score: f32) -> u32 {
    if score.is_nan() {
        return u32::MAX;
    }
    let bits = (score + 0.0).to_bits();
    if score < 0.0 { bits } else { (1 << 31) - 1 - bits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_order_scores() {
        let scores = [f32::INFINITY, 1e30, 2.0, 1e-40, 0.0, -1e-40, -1.0, -31739.0, f32::NEG_INFINITY, f32::NAN];
        let ranks = scores.map(rank);
        assert!(ranks.windows(2).all(|pair| pair[0] < pair[1]), "{ranks:x?}");
        assert_eq!(rank(0.0), rank(-0.0));
    }
}
