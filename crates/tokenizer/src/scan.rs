//! Pre-tokenization, one step at a time: where does the piece of text end that starts here? Each step is a hand-written
//! scanner for the regular expression in its comment, because look-ahead takes a backtracking engine: fancy-regex 0.20
//! splits at 34 MB/s, where all of encoding runs at 39 (docs/tokenizer-choice.md). Which steps a vocabulary takes is in
//! `pre`.

use crate::class::Class;
use crate::digits;
use crate::marked::{self, LineEnds};
use crate::prose::{Prose, contraction, numbers};
use crate::runs::{is_space, peek, run, space};

/// One splitting step. Every step cuts the whole text: what its expression does not match is a piece too.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
    Gpt2,
    /// The expressions of `prose`.
    Prose(&'static Prose),
    /// The expression of `marked`.
    Marked(LineEnds),
    /// `C+`
    Runs(fn(char) -> bool),
    /// `C`
    Each(fn(char) -> bool),
    /// `\s?C+`
    SpaceAndRun(fn(char) -> bool),
    /// ` ?C+`, with no other white space.
    BlankAndRun(fn(char) -> bool),
    /// `C+|D+|...`
    RunsOf(&'static [fn(char) -> bool]),
    /// What the function finds at the start of a text, by its length.
    Found(fn(&str) -> Option<usize>),
    /// `\s+$`
    TrailingSpace,
    /// `[0-9]{3}`
    DigitTriples,
    /// `\p{N}{1,n}`
    Digits(usize),
    /// `digits::cut_numbers`
    DigitsFromRight,
    /// `(?=(\d{3})+(?!\d))`
    BeforeTriples,
}

impl Step {
    /// Calls `piece` with each piece of `text`, in order; together they are the text.
    pub fn cut<'a>(self, text: &'a str, piece: &mut dyn FnMut(&'a str)) {
        match self {
            Step::DigitsFromRight => return digits::cut_numbers(text, piece),
            Step::BeforeTriples => return digits::cut_before_triples(text, piece),
            _ => {}
        }
        let mut at = 0;
        while let Some(first) = peek(text, at) {
            let end = self.end(text, at, first);
            piece(&text[at..end]);
            at = end;
        }
    }

    /// The end of the piece that starts at byte `at` with the character `first`. Greater than `at`.
    fn end(self, text: &str, at: usize, first: char) -> usize {
        match self {
            Step::Gpt2 => gpt2(text, at, first),
            Step::Prose(prose) => prose.end(text, at, first),
            Step::Marked(line_ends) => next(text, at, |at, c| marked::matched(text, at, c, line_ends)),
            Step::Runs(belongs) => run(text, at, |c| belongs(c) == belongs(first)),
            Step::Each(belongs) if belongs(first) => at + first.len_utf8(),
            Step::Each(belongs) => run(text, at, |c| !belongs(c)),
            Step::SpaceAndRun(belongs) => next(text, at, |at, c| after_one(text, at, c, is_space, belongs)),
            Step::BlankAndRun(belongs) => next(text, at, |at, c| after_one(text, at, c, |c| c == ' ', belongs)),
            Step::RunsOf(sets) => match sets.iter().find(|set| set(first)) {
                Some(set) => run(text, at, set),
                None => run(text, at, |c| !sets.iter().any(|set| set(c))),
            },
            Step::Found(find) => next(text, at, |at, _| find(&text[at..]).map(|length| at + length)),
            Step::TrailingSpace => {
                let end = text.trim_end_matches(is_space).len();
                if end > at { end } else { text.len() }
            }
            Step::DigitTriples => digits::triples(text, at),
            Step::Digits(most) if Class::of(first).any(Class::NUMBER) => numbers(text, at + first.len_utf8(), most - 1),
            Step::Digits(_) => run(text, at, |c| !Class::of(c).any(Class::NUMBER)),
            // Cut as a whole above.
            Step::DigitsFromRight | Step::BeforeTriples => text.len(),
        }
    }
}

/// The end of what `matched` finds at byte `at`, or else where it finds something next.
fn next(text: &str, at: usize, matched: impl Fn(usize, char) -> Option<usize>) -> usize {
    let mut place = at;
    while let Some(c) = peek(text, place) {
        if let Some(end) = matched(place, c) {
            return if place > at { place } else { end };
        }
        place += c.len_utf8();
    }
    place
}

/// A run of characters that `belongs` accepts, with one before it that `before` does.
fn after_one(
    text: &str,
    at: usize,
    first: char,
    before: impl Fn(char) -> bool,
    belongs: fn(char) -> bool,
) -> Option<usize> {
    let second = at + first.len_utf8();
    let found = belongs(first) || before(first) && peek(text, second).is_some_and(belongs);
    found.then(|| run(text, second, belongs))
}

fn gpt2(text: &str, at: usize, first: char) -> usize {
    const WORD: Class = Class::LETTER.or(Class::NUMBER).or(Class::SPACE);
    if first == '\''
        && let Some(end) = contraction(text, at, false)
    {
        return end;
    }
    let start = if first == ' ' { at + 1 } else { at };
    let Some(c) = peek(text, start) else { return start };
    let class = Class::of(c);
    if class.any(Class::SPACE) {
        return space(text, at);
    }
    let after = start + c.len_utf8();
    if class.any(WORD) {
        run(text, after, |c| Class::of(c) == class)
    } else {
        run(text, after, |c| !Class::of(c).any(WORD))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::rules::{LLAMA3, QWEN2, QWEN35};

    const VOWELS: fn(char) -> bool = |c| "aeiou".contains(c);

    #[test]
    fn pieces() {
        let cases: &[(Step, &str, &[&str])] = &[
            (
                Step::Gpt2,
                "I'm  fine, it's 12:30!?\n\n ok ",
                &["I", "'m", " ", " fine", ",", " it", "'s", " 12", ":", "30", "!?", "\n\n", " ok", " "],
            ),
            (Step::Gpt2, "IT'S 'tis '", &["IT", "'", "S", " '", "tis", " '"]),
            (Step::Gpt2, "a\u{a0}\u{a0}b\u{301}c", &["a", "\u{a0}", "\u{a0}", "b", "\u{301}", "c"]),
            (Step::Gpt2, "\t\tx\t", &["\t", "\t", "x", "\t"]),
            (LLAMA3, "IT'S 12345.67 don'tx", &["IT", "'S", " ", "123", "45", ".", "67", " don", "'t", "x"]),
            (LLAMA3, "a  \n \n  b\n", &["a", "  \n \n", " ", " b", "\n"]),
            (LLAMA3, "x =\r\n\r\ny", &["x", " =\r\n\r\n", "y"]),
            (LLAMA3, "\u{4f60}\u{597d}, (abc)\tdef", &["\u{4f60}\u{597d}", ",", " (", "abc", ")", "\tdef"]),
            (LLAMA3, "!abc 'll 'rE '", &["!abc", " '", "ll", " '", "rE", " '"]),
            (LLAMA3, "'LL'Ve'", &["'LL", "'Ve", "'"]),
            (QWEN2, " 123", &[" ", "1", "2", "3"]),
            (QWEN2, "e\u{301}a", &["e", "\u{301}a"]),
            (QWEN35, "e\u{301}a \u{301}", &["e\u{301}a", " \u{301}"]),
            (Step::Runs(VOWELS), "queue dry", &["q", "ueue", " dry"]),
            (Step::Each(VOWELS), "queue dry", &["q", "u", "e", "u", "e", " dry"]),
            (Step::SpaceAndRun(VOWELS), "x  ab\u{3000}ib", &["x ", " a", "b", "\u{3000}i", "b"]),
            (Step::TrailingSpace, " a b \t", &[" a b", " \t"]),
            (Step::TrailingSpace, "  ", &["  "]),
            (Step::DigitTriples, "a12345678b", &["a", "123", "456", "78b"]),
        ];
        for &(step, text, expected) in cases {
            let mut pieces = Vec::new();
            step.cut(text, &mut |piece| pieces.push(piece));
            assert_eq!(pieces, expected, "{step:?} of {text:?}");
        }
    }
}
