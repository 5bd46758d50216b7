//! SentencePiece's unigram model, the algorithm of T5 and XLM-RoBERTa: of all ways to spell a text with tokens the one
//! whose scores have the greatest sum. Before that the text is normalized, by a map of the file and by what becomes of
//! spaces.

use hashbrown::HashSet;

use crate::charsmap::Charsmap;
use crate::kind::Kind;
use crate::spm::SPACE;
use crate::trie::Trie;
use crate::vocab::Vocab;
use crate::words::Words;

/// What a character without a token costs more than the token with the least score.
const PENALTY: f32 = 10.0;

/// What the file says about spaces.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spacing {
    /// A space goes before the text.
    pub prefix: bool,
    /// Spaces at the ends go, and several are one.
    pub merge: bool,
}

/// The tokens with their scores, and how text is normalized.
pub(crate) struct Unigram {
    tokens: Trie,
    /// The score of each token; that of user-defined ones is 0, the best there is.
    scores: Vec<f64>,
    unknown: Option<u32>,
    unknown_score: f64,
    charsmap: Option<Charsmap>,
    pub spacing: Spacing,
    /// Characters that some token has before a U+2581: text can be cut before a space that follows any other.
    before_space: HashSet<char>,
}

/// The best spelling of a word up to some byte.
#[derive(Clone, Copy)]
struct Best {
    score: f64,
    /// The token that ends here, and where it starts; `None` is the unknown token.
    id: Option<u32>,
    start: usize,
}

const NOWHERE: Best = Best { score: f64::NEG_INFINITY, id: None, start: 0 };

impl Unigram {
    /// `scores` has one item for each token.
    pub fn new(
        vocab: &Vocab,
        scores: &[f32],
        unknown: Option<u32>,
        charsmap: Option<Charsmap>,
        spacing: Spacing,
    ) -> Unigram {
        let kinds = Kind::NORMAL.with(Kind::USER_DEFINED).with(Kind::UNUSED);
        let spellable = || vocab.ids_of(kinds).filter(|&id| !vocab.kind(id).any(Kind::RESERVED));
        let text = |id: u32| vocab.text(id).unwrap_or_default();
        let normal = vocab.ids_of(Kind::NORMAL).map(|id| scores[id as usize]);
        let least = normal.fold(f32::MAX, f32::min);
        let mut before_space = HashSet::new();
        for text in spellable().map(text) {
            let spaces = text.match_indices(SPACE);
            before_space.extend(spaces.filter_map(|(at, _)| text[..at].chars().next_back()));
        }
        let score = |id: u32| if vocab.kind(id).any(Kind::USER_DEFINED) { 0.0 } else { f64::from(scores[id as usize]) };
        Unigram {
            tokens: Trie::new(spellable().map(|id| (text(id).as_bytes(), id)).collect()),
            scores: (0..vocab.len() as u32).map(score).collect(),
            unknown,
            unknown_score: f64::from(least - PENALTY),
            charsmap,
            spacing,
            before_space,
        }
    }

    /// Appends the ids of `text`.
    pub fn encode(&self, text: &str, out: &mut Vec<u32>) {
        let text = self.normalized(text);
        let mut ids = Vec::with_capacity(text.len() / 3);
        let mut words = Words::new(&mut ids);
        let mut best = Vec::new();
        let (mut start, mut previous) = (0, SPACE);
        for (at, c) in text.char_indices() {
            if c == SPACE && at > start && !self.before_space.contains(&previous) {
                let word = &text[start..at];
                words.append(word, |ids| self.encode_word(word, &mut best, ids));
                start = at;
            }
            previous = c;
        }
        let last = &text[start..];
        words.append(last, |ids| self.encode_word(last, &mut best, ids));
        // Unknown tokens in a row are one.
        ids.dedup_by(|second, first| second == first && Some(*second) == self.unknown);
        out.extend(ids);
    }

    fn normalized(&self, text: &str) -> String {
        let mut normalized = Vec::with_capacity(text.len() + text.len() / 4 + 3);
        let (mut prefixed, mut inside) = (!self.spacing.prefix, false);
        let mut space = [0; 3];
        let space = SPACE.encode_utf8(&mut space).as_bytes();
        let mut at = 0;
        while let Some(rest) = text.as_bytes().get(at..).filter(|rest| !rest.is_empty()) {
            let (length, replacement) = match self.charsmap.as_ref().and_then(|map| map.longest(rest)) {
                Some(found) => found,
                None => {
                    let length = text.get(at..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8);
                    (length, &rest[..length])
                }
            };
            at += length;
            for &byte in replacement {
                if byte != b' ' {
                    if !inside && (!prefixed || self.spacing.merge) {
                        normalized.extend_from_slice(space);
                        prefixed = true;
                    }
                    normalized.push(byte);
                } else if !self.spacing.merge {
                    normalized.extend_from_slice(space);
                }
                inside = byte != b' ';
            }
        }
        String::from_utf8(normalized).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }

    /// Viterbi's algorithm over the bytes of a word.
    fn encode_word(&self, word: &str, best: &mut Vec<Best>, out: &mut Vec<u32>) {
        best.clear();
        best.resize(word.len() + 1, NOWHERE);
        best[0].score = 0.0;
        for (start, c) in word.char_indices() {
            let before = best[start].score;
            let mut alone = false;
            let mut offer = |end: usize, score: f64, id| {
                if before + score > best[end].score {
                    best[end] = Best { score: before + score, id, start };
                }
            };
            for (length, id) in self.tokens.prefixes(&word.as_bytes()[start..]) {
                alone |= length == c.len_utf8();
                offer(start + length, self.scores[id as usize], Some(id));
            }
            if !alone {
                offer(start + c.len_utf8(), self.unknown_score, None);
            }
        }
        let (first, mut end) = (out.len(), word.len());
        while end > 0 {
            let Best { id, start, .. } = best[end];
            // A score that is no number leaves no way back; such a file gets the unknown token.
            out.extend(id.or(self.unknown));
            end = start;
        }
        out[first..].reverse();
    }
}
