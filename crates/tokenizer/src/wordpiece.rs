//! WordPiece, BERT's algorithm: text is cleaned and cut into words, and each word is spelled with the longest tokens from
//! the left. GGUF spells the beginning of a word U+2581 where BERT's own list spells the continuation `##`.

use unicode_general_category::{GeneralCategory, get_general_category};
use unicode_normalization::char::decompose_canonical;

use crate::char_bpe::lowered;
use crate::charset::is_bert_ideograph;
use crate::class::Class;
use crate::kind::Kind;
use crate::trie::Trie;
use crate::vocab::Vocab;
use crate::words::Words;

/// What is done to text before it is cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cleaning {
    /// Letters become small.
    pub lowercase: bool,
    /// Accents go.
    pub strip_accents: bool,
}

/// The tokens, ready to be searched for.
pub(crate) struct WordPiece {
    tokens: Trie,
    unknown: Option<u32>,
    cleaning: Cleaning,
}

impl WordPiece {
    pub fn new(vocab: &Vocab, unknown: Option<u32>, cleaning: Cleaning) -> WordPiece {
        let texts = (0..vocab.len() as u32).filter(|&id| !vocab.kind(id).any(Kind::RESERVED.with(Kind::BYTE)));
        let items = texts.filter_map(|id| Some((vocab.text(id)?.as_bytes(), id)));
        WordPiece { tokens: Trie::new(items.collect()), unknown, cleaning }
    }

    /// Appends the ids of `text`.
    pub fn encode(&self, text: &str, out: &mut Vec<u32>) {
        // One string of all words, each with U+2581 before it, so that a word is a slice of it.
        let mut cleaned = String::with_capacity(text.len() * 2);
        let mut starts = Vec::new();
        let mut inside = false;
        for c in text.chars() {
            self.clean(c, &mut |c| {
                let class = Class::of(c);
                if class.any(Class::SPACE) {
                    inside = false;
                    return;
                }
                if c == '\0' || c == char::REPLACEMENT_CHARACTER || class.any(Class::CONTROL) {
                    return;
                }
                if self.cleaning.strip_accents && class.any(Class::MARK) && is_accent(c) {
                    return;
                }
                let alone =
                    class.any(Class::PUNCTUATION) || c.is_ascii() && class.any(Class::SYMBOL) || is_bert_ideograph(c);
                if alone || !inside {
                    starts.push(cleaned.len());
                    cleaned.push('\u{2581}');
                }
                cleaned.push(if self.cleaning.lowercase { lowered(c) } else { c });
                inside = !alone;
            });
        }
        starts.push(cleaned.len());
        let mut words = Words::new(out);
        for range in starts.windows(2) {
            let word = &cleaned[range[0]..range[1]];
            words.append(word, |out| self.encode_word(word.as_bytes(), out));
        }
    }

    /// Calls `each` with the characters that `c` stands for: itself, or the base and its accents.
    fn clean(&self, c: char, each: &mut dyn FnMut(char)) {
        if self.cleaning.strip_accents && !c.is_ascii() { decompose_canonical(c, each) } else { each(c) }
    }

    /// Appends the ids of a word: the unknown token alone where some part of it has none.
    fn encode_word(&self, word: &[u8], out: &mut Vec<u32>) {
        let (start, mut rest) = (out.len(), word);
        while !rest.is_empty() {
            let Some((length, id)) = self.tokens.longest(rest) else {
                out.truncate(start);
                return out.extend(self.unknown);
            };
            out.push(id);
            rest = &rest[length..];
        }
    }
}

/// Whether a mark is an accent: one that takes no room. The vowels of Hindi and its kin take some, and stay.
fn is_accent(c: char) -> bool {
    get_general_category(c) == GeneralCategory::NonspacingMark
}
