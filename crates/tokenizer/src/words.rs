//! The ids of words that have been seen before in the same text. Text repeats its words, and copying ids is many times
//! faster than merging again. It forgets everything at the end of the text.

use hashbrown::HashMap;

/// More words than this are not remembered, so that hostile input cannot take memory without end.
const MAX_WORDS: usize = 1 << 16;

/// Ids to be appended to, and where in them each word's are.
pub(crate) struct Words<'a, 'o> {
    out: &'o mut Vec<u32>,
    seen: HashMap<&'a str, (usize, usize)>,
}

impl<'a, 'o> Words<'a, 'o> {
    pub fn new(out: &'o mut Vec<u32>) -> Self {
        Words { out, seen: HashMap::new() }
    }

    /// Appends the ids of `word`, which `encode` appends where they are not known. They must depend on the word alone.
    pub fn append(&mut self, word: &'a str, encode: impl FnOnce(&mut Vec<u32>)) {
        if let Some(&(start, end)) = self.seen.get(word) {
            return self.out.extend_from_within(start..end);
        }
        let start = self.out.len();
        encode(self.out);
        if self.seen.len() < MAX_WORDS {
            self.seen.insert(word, (start, self.out.len()));
        }
    }

    /// The ids, to append those of something that is no word of the text.
    pub fn unseen(&mut self) -> &mut Vec<u32> {
        self.out
    }
}
