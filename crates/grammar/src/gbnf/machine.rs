//! Follows a text by a grammar's rules, byte by byte.
//!
//! What may come next is a set of stacks of places in rules, as in llama.cpp. Stacks share their lower parts, sets that were seen
//! before are known again, and so is what a byte makes of them: after a while each byte costs one look into a table.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use toktrie::{Recognizer, SimpleVob, TokTrie};

use super::rules::{Rules, Step};

/// Nothing may follow, and nothing may end.
pub const DEAD: u32 = 0;
/// A table's entry that is not known yet.
const UNKNOWN: u32 = u32::MAX;
/// The frame under all others: the text may end.
const BOTTOM: u32 = 0;

/// Sets that are kept; then all are forgotten but the present one. Each takes 1 KiB.
const MOST_SETS: usize = 16_384;
/// Masks that are kept.
const MOST_MASKS: usize = 256;
/// Stacks of a set, and frames of all stacks.
const MOST_STACKS: usize = 4_096;
const MOST_FRAMES: usize = 4 << 20;
/// Places that are looked at for one mask or one token: a second of work.
const MOST_WORK: usize = 20_000_000;
/// What is said of a grammar that leads to more.
const AMBIGUOUS: &str = "the grammar has too many ways to read this text";

/// A grammar, and what is known of the texts that it allows. A clone knows the same.
#[derive(Clone)]
pub struct Machine {
    rules: Arc<Rules>,
    /// A place in a rule, and the frame to go on with when the rule is over.
    frames: Vec<(u32, u32)>,
    frame_ids: HashMap<(u32, u32), u32>,
    /// The stacks of each set, by their top frames: places of bytes, or the bottom.
    sets: Vec<Arc<[u32]>>,
    set_ids: HashMap<Arc<[u32]>, u32>,
    /// The set after each byte.
    after: Vec<[u32; 256]>,
    masks: HashMap<u32, Arc<SimpleVob>>,
    work: usize,
    failure: Option<&'static str>,
}

impl Machine {
    /// The machine at the beginning of a text, and the set there.
    pub fn new(rules: Arc<Rules>) -> (Machine, u32) {
        let mut machine = Machine {
            rules,
            frames: vec![(0, 0)],
            frame_ids: HashMap::new(),
            sets: Vec::new(),
            set_ids: HashMap::new(),
            after: Vec::new(),
            masks: HashMap::new(),
            work: 0,
            failure: None,
        };
        machine.set(Vec::new());
        let mut tops = Vec::new();
        machine.expand(machine.rules.start(), BOTTOM, &mut tops);
        let start = machine.set(tops);
        (machine, start)
    }

    /// Why it could not go on.
    pub fn failure(&self) -> Option<&'static str> {
        self.failure
    }

    /// Whether the text may end here.
    pub fn may_end(&self, set: u32) -> bool {
        self.sets[set as usize].first() == Some(&BOTTOM)
    }

    /// The set after these bytes.
    pub fn take(&mut self, set: u32, bytes: &[u8]) -> u32 {
        self.work = 0;
        bytes.iter().fold(set, |set, &byte| self.next(set, byte))
    }

    /// The tokens that may follow, of a vocabulary that is always the same; and the set itself, which may have another number now.
    pub fn allowed(&mut self, set: u32, trie: &TokTrie) -> (Arc<SimpleVob>, u32) {
        let set = self.tidied(set);
        if let Some(mask) = self.masks.get(&set) {
            return (mask.clone(), set);
        }
        let mask = Arc::new(self.walk(set, trie));
        if self.masks.len() >= MOST_MASKS {
            self.masks.clear();
        }
        self.masks.insert(set, mask.clone());
        (mask, set)
    }

    /// The same without keeping it: for a vocabulary that is asked once.
    pub fn walk(&mut self, set: u32, trie: &TokTrie) -> SimpleVob {
        self.work = 0;
        let mut mask = trie.alloc_token_set();
        trie.add_bias(&mut Walk { machine: self, path: vec![set] }, &mut mask, &[]);
        mask
    }

    fn next(&mut self, set: u32, byte: u8) -> u32 {
        let known = self.after[set as usize][byte as usize];
        if known != UNKNOWN {
            return known;
        }
        if self.failure.is_some() {
            return DEAD;
        }
        let tops = self.sets[set as usize].clone();
        let mut next = Vec::new();
        for &top in tops.iter().filter(|&&top| top != BOTTOM) {
            let (place, below) = self.frames[top as usize];
            if let Step::Byte(first, last) = self.rules.step(place)
                && (first..=last).contains(&byte)
            {
                self.expand(place + 1, below, &mut next);
            }
        }
        let next = self.set(next);
        self.after[set as usize][byte as usize] = next;
        next
    }

    /// Adds the stacks that a place leads to before any byte.
    fn expand(&mut self, place: u32, below: u32, tops: &mut Vec<u32>) {
        let mut open = vec![(place, below)];
        let mut seen = HashSet::new();
        while let Some((place, below)) = open.pop() {
            if !seen.insert((place, below)) {
                continue;
            }
            self.work += 1;
            if seen.len() > MOST_STACKS || self.work > MOST_WORK {
                self.failure = Some(AMBIGUOUS);
                return;
            }
            match self.rules.step(place) {
                Step::End if below == BOTTOM => tops.push(BOTTOM),
                Step::End => open.push(self.frames[below as usize]),
                Step::Byte(..) => tops.push(self.frame(place, below)),
                Step::Rule(rule) => {
                    // Where a rule is the last of another, nothing has to be gone on with.
                    let is_last = self.rules.step(place + 1) == Step::End;
                    let below = if is_last { below } else { self.frame(place + 1, below) };
                    open.extend(self.rules.alternatives(rule).iter().map(|&start| (start, below)));
                }
            }
        }
    }

    fn frame(&mut self, place: u32, below: u32) -> u32 {
        if let Some(&id) = self.frame_ids.get(&(place, below)) {
            return id;
        }
        if self.frames.len() >= MOST_FRAMES {
            self.failure = Some("the text is too deep for the grammar");
            return BOTTOM;
        }
        let id = self.frames.len() as u32;
        self.frames.push((place, below));
        self.frame_ids.insert((place, below), id);
        id
    }

    fn set(&mut self, mut tops: Vec<u32>) -> u32 {
        tops.sort_unstable();
        tops.dedup();
        if tops.len() > MOST_STACKS {
            self.failure = Some(AMBIGUOUS);
            tops.clear();
        }
        if let Some(&id) = self.set_ids.get(tops.as_slice()) {
            return id;
        }
        let id = self.sets.len() as u32;
        let tops: Arc<[u32]> = tops.into();
        self.sets.push(tops.clone());
        self.set_ids.insert(tops, id);
        self.after.push([UNKNOWN; 256]);
        id
    }

    /// Forgets all sets but this one, where there are many; its number afterwards.
    fn tidied(&mut self, set: u32) -> u32 {
        if self.sets.len() < MOST_SETS {
            return set;
        }
        let tops = self.sets[set as usize].to_vec();
        self.sets.clear();
        self.set_ids.clear();
        self.after.clear();
        self.masks.clear();
        self.set(Vec::new());
        self.set(tops)
    }
}

/// A walk through a trie of tokens.
struct Walk<'m> {
    machine: &'m mut Machine,
    /// The sets on the way.
    path: Vec<u32>,
}

impl Walk<'_> {
    fn here(&self) -> u32 {
        self.path.last().copied().unwrap_or(DEAD)
    }
}

impl Recognizer for Walk<'_> {
    fn pop_bytes(&mut self, count: usize) {
        self.path.truncate(self.path.len() - count);
    }

    fn collapse(&mut self) {
        self.path = vec![self.here()];
    }

    fn trie_finished(&mut self) {}

    fn try_push_byte(&mut self, byte: u8) -> bool {
        let next = self.machine.next(self.here(), byte);
        if next != DEAD {
            self.path.push(next);
        }
        next != DEAD
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepts(grammar: &str, text: &str) -> bool {
        let (mut machine, start) = Machine::new(Arc::new(Rules::parse(grammar).unwrap()));
        let end = machine.take(start, text.as_bytes());
        assert_eq!(machine.failure(), None);
        machine.may_end(end)
    }

    #[test]
    fn texts_of_a_grammar_and_others() {
        for (grammar, right, wrong) in [
            ("root ::= \"a\" | \"ab\"", &["a", "ab"][..], &["", "b", "abb"][..]),
            ("root ::= \"a\"* \"ab\"?", &["", "a", "aab", "ab", "aaaa"], &["b", "abb"]),
            ("root ::= (\"a\" [0-9]?){2,3}", &["aa", "a1a", "a1a2a3"], &["a1", "a1a2a3a4", "a12a"]),
            ("root ::= \"a\"{0}", &[""], &["a"]),
            ("root ::= \"(\" root \")\" | \"\"", &["", "()", "((()))"], &["(", "())", "(()"]),
            ("root ::= [^\\n\"]+ \"\\n\"", &["é\n", "日本\n", "a😀\n"], &["\n", "a", "a\"\n"]),
            ("root ::= [ぁ-ゟ]+", &["ひ", "ひら"], &["カ", "a", ""]),
            ("root ::= . .", &["é\n", "😀😀"], &["a", "abc"]),
            ("root ::= e e\ne ::= \"x\"?", &["", "x", "xx"], &["xxx"]),
            ("root ::= (\"a\"?)* \"b\"", &["b", "aab"], &["a", "ba"]),
            ("root ::= \"ab\" \"c\" | \"a\" \"bd\"", &["abc", "abd"], &["ab", "acd"]),
            ("root ::= \"abc\" | \"a\" \"bx\"", &["abc", "abx"], &["ab"]),
            ("root ::= [a-z]+ \"b\"", &["ab", "aab", "bb"], &["b", "ba"]),
        ] {
            for text in right {
                assert!(accepts(grammar, text), "{grammar}: {text:?}");
            }
            for text in wrong {
                assert!(!accepts(grammar, text), "{grammar}: {text:?}");
            }
        }
        // A rule goes on in the next line after a | or within brackets alone.
        assert!(Rules::parse("root ::= x\n  | x\nx ::= \"1\"").is_err());
        assert!(accepts("root ::= x | # one\n y\nx ::= \"1\"\ny ::= \"2\"", "2"));
    }

    #[test]
    fn long_texts_need_no_more_than_short_ones() {
        let grammar = "root ::= \"[\" (value (\",\" value)*)? \"]\"\nvalue ::= root | [a-z]*";
        let (mut machine, mut set) = Machine::new(Arc::new(Rules::parse(grammar).unwrap()));
        set = machine.take(set, b"[");
        for _ in 0..1000 {
            set = machine.take(set, b"[abc,],xyz,");
        }
        assert!(machine.sets.len() < 100, "{}", machine.sets.len());
        assert!(!machine.may_end(set));
        assert!({
            let end = machine.take(set, b"a]");
            machine.may_end(end)
        });
    }

    #[test]
    fn what_was_forgotten_is_found_again() {
        let (mut machine, start) = Machine::new(Arc::new(Rules::parse("root ::= \"(\" root \")\" | \"\"").unwrap()));
        let deep = machine.take(start, "(".repeat(2 * MOST_SETS).as_bytes());
        let set = machine.tidied(deep);
        assert!(machine.sets.len() == 2, "the present one, and the dead one");
        let end = machine.take(set, ")".repeat(2 * MOST_SETS).as_bytes());
        assert!(machine.may_end(end));
        assert_eq!(machine.take(end, b")"), DEAD);
    }

    #[test]
    fn a_grammar_with_too_many_readings_fails_and_does_not_hang() {
        let grammar = "root ::= \"a\" root root root | \"a\"";
        let (mut machine, start) = Machine::new(Arc::new(Rules::parse(grammar).unwrap()));
        let mut set = start;
        for _ in 0..3000 {
            set = machine.take(set, b"a");
        }
        assert!(machine.failure().is_some());
    }
}
