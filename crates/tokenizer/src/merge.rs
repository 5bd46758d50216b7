//! The loop that SPM and BPE share: join the best pair of neighbours until no pair can be joined. What a pair is worth
//! is the caller's; so is what becomes of symbols that are no token in the end.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

const NONE: usize = usize::MAX;

/// A stretch of a word that is one symbol at the moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Symbol {
    /// Where it starts in the word, in bytes.
    pub start: usize,
    /// Its length in bytes; 0 once it has been joined to its left neighbour.
    pub len: usize,
    /// What it is, in the caller's numbering.
    pub id: u32,
    previous: usize,
    next: usize,
}

/// A pair of neighbours that can be joined.
#[derive(PartialEq, Eq)]
struct Candidate {
    /// Lower is joined first.
    rank: u32,
    left: usize,
    right: usize,
    /// Length of both together when the pair was found, which tells a stale candidate from a live one.
    len: usize,
    /// What the two become.
    id: u32,
}

impl Ord for Candidate {
    /// The greatest is joined first: lowest rank, then leftmost.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.rank, other.left).cmp(&(self.rank, self.left))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The symbols of one word and the queue of its pairs. Kept between words for its allocations.
#[derive(Default)]
pub(crate) struct Merger {
    symbols: Vec<Symbol>,
    queue: BinaryHeap<Candidate>,
}

impl Merger {
    /// Begins a new word.
    pub fn clear(&mut self) {
        self.symbols.clear();
        self.queue.clear();
    }

    /// Appends a symbol of `len` bytes, at least 1, to the word.
    pub fn push(&mut self, len: usize, id: u32) {
        let n = self.symbols.len();
        let (start, previous) = match self.symbols.last_mut() {
            Some(last) => {
                last.next = n;
                (last.start + last.len, n - 1)
            }
            None => (0, NONE),
        };
        self.symbols.push(Symbol { start, len, id, previous, next: NONE });
    }

    /// Joins pairs until none is left. `pair` gives the rank of two neighbours and the id of what they become, or
    /// `None` where they cannot be joined. Takes O(n log n) calls for n symbols.
    pub fn run(&mut self, pair: impl Fn(&Symbol, &Symbol) -> Option<(u32, u32)>) {
        for right in 1..self.symbols.len() {
            self.consider(right - 1, right, &pair);
        }
        while let Some(best) = self.queue.pop() {
            let (left, right) = (self.symbols[best.left], self.symbols[best.right]);
            if left.len == 0 || right.len == 0 || left.len + right.len != best.len {
                continue;
            }
            self.symbols[best.left] = Symbol { len: best.len, id: best.id, next: right.next, ..left };
            self.symbols[best.right].len = 0;
            if right.next != NONE {
                self.symbols[right.next].previous = best.left;
                self.consider(best.left, right.next, &pair);
            }
            if left.previous != NONE {
                self.consider(left.previous, best.left, &pair);
            }
        }
    }

    fn consider(&mut self, left: usize, right: usize, pair: &impl Fn(&Symbol, &Symbol) -> Option<(u32, u32)>) {
        let (a, b) = (&self.symbols[left], &self.symbols[right]);
        if let Some((rank, id)) = pair(a, b) {
            self.queue.push(Candidate { rank, left, right, len: a.len + b.len, id });
        }
    }

    /// The symbols that are left, in order.
    pub fn symbols(&self) -> impl Iterator<Item = &Symbol> {
        self.symbols.iter().filter(|symbol| symbol.len > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(word: &str, merges: &[&str]) -> Vec<String> {
        let mut merger = Merger::default();
        merger.clear();
        word.chars().for_each(|c| merger.push(c.len_utf8(), 0));
        merger.run(|a, b| {
            let text = &word[a.start..b.start + b.len];
            merges.iter().position(|&merge| merge == text).map(|rank| (rank as u32, 0))
        });
        merger.symbols().map(|s| word[s.start..s.start + s.len].to_owned()).collect()
    }

    #[test]
    fn best_pair_first_then_leftmost() {
        let cases: &[(&str, &[&str], &[&str])] = &[
            ("", &["ab"], &[]),
            ("a", &["ab"], &["a"]),
            ("abc", &["bc", "ab"], &["a", "bc"]),
            ("abc", &["ab", "bc"], &["ab", "c"]),
            ("aaa", &["aa"], &["aa", "a"]),
            ("aaaa", &["aa", "aaaa"], &["aaaa"]),
            ("abcd", &["bc", "abc", "abcd"], &["abcd"]),
            // A candidate whose right half has grown since must not be taken.
            ("abc", &["bc", "ab", "abc"], &["abc"]),
            ("abab", &["ba", "ab"], &["a", "ba", "b"]),
        ];
        for (word, merges, expected) in cases {
            assert_eq!(joined(word, merges), *expected, "{word} {merges:?}");
        }
    }
}
