//! Pre-tokenization, one step at a time: where does the piece of text end that starts here? Each step is a hand-written
//! scanner for the regular expression in its comment, because look-ahead takes a backtracking engine: fancy-regex 0.20
//! splits at 34 MB/s, where all of encoding runs at 39 (docs/tokenizer-choice.md). Which steps a vocabulary takes is in
//! `pre`.

use crate::class::Class;

/// One splitting step. Every step cuts the whole text: what its expression does not match is a piece too.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
    Gpt2,
    /// `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?W+|\p{N}{1,digits}| ?[^\sW\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
    /// with W the classes of `word`.
    Llama3 {
        /// The most digits in one piece.
        digits: usize,
        /// What words consist of.
        word: Class,
    },
    /// `C+`
    Runs(fn(char) -> bool),
    /// `C`
    Each(fn(char) -> bool),
    /// `\s?C+`
    SpaceAndRun(fn(char) -> bool),
    /// `\s+$`
    TrailingSpace,
    /// `[0-9]{3}`
    DigitTriples,
}

/// The character at byte `at`, if there is one.
#[inline]
fn peek(text: &str, at: usize) -> Option<char> {
    match text.as_bytes().get(at) {
        Some(&byte) if byte.is_ascii() => Some(char::from(byte)),
        Some(_) => text[at..].chars().next(),
        None => None,
    }
}

/// Where the run of characters that `belongs` accepts ends, from byte `at` on.
#[inline]
fn run(text: &str, mut at: usize, belongs: impl Fn(char) -> bool) -> usize {
    while let Some(c) = peek(text, at) {
        if !belongs(c) {
            break;
        }
        at += c.len_utf8();
    }
    at
}

fn is_space(c: char) -> bool {
    Class::of(c).any(Class::SPACE)
}

fn is_line_end(c: char) -> bool {
    c == '\r' || c == '\n'
}

impl Step {
    /// The end of the piece that starts at byte `at`, which is inside the text. Greater than `at`.
    pub fn end(self, text: &str, at: usize) -> usize {
        let Some(first) = peek(text, at) else { return text.len() };
        match self {
            Step::Gpt2 => gpt2(text, at, first),
            Step::Llama3 { digits, word } => llama3(text, at, first, digits, word),
            Step::Runs(belongs) => run(text, at, |c| belongs(c) == belongs(first)),
            Step::Each(belongs) if belongs(first) => at + first.len_utf8(),
            Step::Each(belongs) => run(text, at, |c| !belongs(c)),
            Step::SpaceAndRun(belongs) => space_and_run(text, at, belongs),
            Step::TrailingSpace => {
                let end = text.trim_end_matches(is_space).len();
                if end > at { end } else { text.len() }
            }
            Step::DigitTriples => digit_triples(text, at),
        }
    }
}

/// `'s|'t|'re|'ve|'m|'ll|'d` at the apostrophe at byte `at`, in either case if `any_case`.
fn contraction(text: &str, at: usize, any_case: bool) -> Option<usize> {
    let lower = |at: usize| {
        let byte = *text.as_bytes().get(at)?;
        Some(if any_case { byte.to_ascii_lowercase() } else { byte })
    };
    match (lower(at + 1)?, lower(at + 2)) {
        (b's' | b't' | b'm' | b'd', _) => Some(at + 2),
        (b'r' | b'v', Some(b'e')) | (b'l', Some(b'l')) => Some(at + 3),
        _ => None,
    }
}

/// `\s+(?!\S)|\s+`: white space, less its last character if a word follows, to which that one then belongs.
fn space(text: &str, at: usize) -> usize {
    let end = run(text, at, is_space);
    let last = text[at..end].chars().next_back().map_or(0, char::len_utf8);
    if end < text.len() && end - last > at { end - last } else { end }
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

fn llama3(text: &str, at: usize, first: char, digits: usize, word: Class) -> usize {
    if first == '\''
        && let Some(end) = contraction(text, at, true)
    {
        return end;
    }
    let class = Class::of(first);
    let second = at + first.len_utf8();
    if class.any(Class::NUMBER) {
        let mut end = second;
        for _ in 1..digits {
            match peek(text, end) {
                Some(c) if Class::of(c).any(Class::NUMBER) => end += c.len_utf8(),
                _ => break,
            }
        }
        return end;
    }
    let is_word = |c: char| Class::of(c).any(word);
    if class.any(word) || !is_line_end(first) && peek(text, second).is_some_and(is_word) {
        return run(text, second, is_word);
    }
    let other = |c: char| !Class::of(c).any(word.or(Class::NUMBER).or(Class::SPACE));
    let start = if first == ' ' { second } else { at };
    if peek(text, start).is_some_and(other) {
        return run(text, run(text, start, other), is_line_end);
    }
    let end = run(text, at, is_space);
    match text[at..end].rfind(is_line_end) {
        Some(last) => at + last + 1,
        None => space(text, at),
    }
}

fn space_and_run(text: &str, at: usize, belongs: fn(char) -> bool) -> usize {
    let matched = |at: usize, c: char| {
        let next = at + c.len_utf8();
        belongs(c) || is_space(c) && peek(text, next).is_some_and(belongs)
    };
    let mut end = at;
    while let Some(c) = peek(text, end) {
        if matched(end, c) {
            return if end > at { end } else { run(text, end + c.len_utf8(), belongs) };
        }
        end += c.len_utf8();
    }
    end
}

fn digit_triples(text: &str, at: usize) -> usize {
    let triple = |digits: &[u8]| digits.iter().all(u8::is_ascii_digit);
    match text.as_bytes()[at..].windows(3).position(triple) {
        Some(0) => at + 3,
        Some(n) => at + n,
        None => text.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LLAMA3: Step = Step::Llama3 { digits: 3, word: Class::LETTER };
    const QWEN2: Step = Step::Llama3 { digits: 1, word: Class::LETTER };
    const QWEN35: Step = Step::Llama3 { digits: 1, word: Class::LETTER.or(Class::MARK) };
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
            let (mut pieces, mut at) = (Vec::new(), 0);
            while at < text.len() {
                let end = step.end(text, at);
                assert!(end > at);
                pieces.push(&text[at..end]);
                at = end;
            }
            assert_eq!(pieces, expected, "{step:?} of {text:?}");
        }
    }
}
