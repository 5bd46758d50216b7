//! The scanner of a family of expressions that begins with Llama 3's: a word with at most one character before it, a few
//! digits, punctuation with the line ends after it, line ends, white space. Every character is matched by one of them. The
//! members differ in what [`Prose`] says.

use crate::charset::is_han;
use crate::class::Class;
use crate::runs::{is_line_end, is_space, peek, run, space};

/// `contraction|[^\r\n\p{L}\p{N}]?WORD|\p{N}{1,digits}| ?[^\s\p{N}BREAKS]+TAIL|\s*[\r\n]+|SPACES`
#[derive(Debug)]
pub(crate) struct Prose {
    pub contractions: Contractions,
    pub word: Word,
    /// The most digits in one piece.
    pub digits: usize,
    /// What punctuation does not consist of, besides white space and digits.
    pub breaks: Class,
    pub tail: Tail,
    pub spaces: Spaces,
}

/// Where `(?i:'s|'t|'re|'ve|'m|'ll|'d)` goes.
#[derive(Debug)]
pub(crate) enum Contractions {
    /// Nowhere: it is an apostrophe and letters.
    Plain,
    /// It is a piece.
    Piece,
    /// It ends the word before it.
    Suffix,
}

/// What a word is.
#[derive(Debug)]
pub(crate) enum Word {
    /// `W+`
    Run(Class),
    /// `U*L+|U+L*` with W of the class, U W but `a-z`, and L W but `A-Z`: beyond ASCII llama.cpp knows no case.
    Cased(Class),
    /// `\p{L}+` without Han; a run of Han is a piece, and no contraction ends it.
    NotHan,
    /// `(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+`
    Spaced,
}

/// What follows punctuation in its piece.
#[derive(Debug)]
pub(crate) enum Tail {
    Nothing,
    /// `[\r\n]*`
    LineEnds,
    /// `[\r\n/]*`
    LineEndsAndSlashes,
    /// `[\r\n/]?`
    OneLineEndOrSlash,
}

/// How white space without line ends is cut.
#[derive(Debug)]
pub(crate) enum Spaces {
    /// `\s+(?!\S)|\s+`
    ButLast,
    /// `\s{512}(?!\S)|\s{256}(?!\S)|...|\s{4}(?!\S)|\s{1,2}(?!\S)|\s`
    Halving,
}

impl Prose {
    /// The end of the piece that starts at byte `at` with `first`.
    pub fn end(&self, text: &str, at: usize, first: char) -> usize {
        if first == '\''
            && matches!(self.contractions, Contractions::Piece)
            && let Some(end) = contraction(text, at, true)
        {
            return end;
        }
        let class = Class::of(first);
        let second = at + first.len_utf8();
        if class.any(Class::NUMBER) {
            return numbers(text, second, self.digits - 1);
        }
        if matches!(self.word, Word::NotHan) && is_han(first) {
            return run(text, second, is_han);
        }
        if let Some(end) = self.word.end(text, at, first) {
            return match self.contractions {
                Contractions::Suffix if peek(text, end) == Some('\'') => contraction(text, end, true).unwrap_or(end),
                _ => end,
            };
        }
        let breaks = self.breaks.or(Class::NUMBER).or(Class::SPACE);
        let other = |c: char| !Class::of(c).any(breaks);
        let start = if first == ' ' { second } else { at };
        if peek(text, start).is_some_and(other) {
            return self.tail.end(text, run(text, start, other));
        }
        let end = run(text, at, is_space);
        match text[at..end].rfind(is_line_end) {
            Some(last) => at + last + 1,
            None => match self.spaces {
                Spaces::ButLast => space(text, at),
                Spaces::Halving => halving(text, at, end),
            },
        }
    }
}

impl Word {
    /// The end of the word at byte `at`, with the one character that may stand before it.
    #[inline]
    fn end(&self, text: &str, at: usize, first: char) -> Option<usize> {
        let second = at + first.len_utf8();
        match *self {
            Word::Run(word) => {
                let is_word = |c: char| Class::of(c).any(word);
                let found = is_word(first) || !is_line_end(first) && peek(text, second).is_some_and(is_word);
                found.then(|| run(text, second, is_word))
            }
            Word::Cased(word) => {
                let prefix = !is_line_end(first) && !Class::of(first).any(Class::LETTER);
                let starts = || prefix.then_some(second).into_iter().chain([at]);
                starts().find_map(|at| lower(text, at, word)).or_else(|| starts().find_map(|at| upper(text, at, word)))
            }
            Word::NotHan => {
                let is_word = |c: char| Class::of(c).any(Class::LETTER) && !is_han(c);
                let found = is_word(first) || !is_line_end(first) && peek(text, second).is_some_and(is_word);
                found.then(|| run(text, second, is_word))
            }
            Word::Spaced => {
                let is_letter = |c: char| Class::of(c).any(Class::LETTER);
                let found = is_letter(first) || !is_line_end(first) && peek(text, second).is_some_and(is_letter);
                found.then(|| spaced(text, if is_letter(first) { at } else { second }))
            }
        }
    }
}

impl Tail {
    fn end(&self, text: &str, at: usize) -> usize {
        let ends_or_slash = |c: char| is_line_end(c) || c == '/';
        match self {
            Tail::Nothing => at,
            Tail::LineEnds => run(text, at, is_line_end),
            Tail::LineEndsAndSlashes => run(text, at, ends_or_slash),
            Tail::OneLineEndOrSlash => at + usize::from(peek(text, at).is_some_and(ends_or_slash)),
        }
    }
}

/// `'s|'t|'re|'ve|'m|'ll|'d` at the apostrophe at byte `at`, in either case if `any_case`.
pub(crate) fn contraction(text: &str, at: usize, any_case: bool) -> Option<usize> {
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

/// Where a run of at most `most` digits ends.
pub(crate) fn numbers(text: &str, at: usize, most: usize) -> usize {
    let mut end = at;
    for _ in 0..most {
        match peek(text, end) {
            Some(c) if Class::of(c).any(Class::NUMBER) => end += c.len_utf8(),
            _ => break,
        }
    }
    end
}

/// `U*L+`: the run of U gives characters back until an L follows it.
fn lower(text: &str, at: usize, word: Class) -> Option<usize> {
    let is_lower = |c: char| Class::of(c).any(word) && !c.is_ascii_uppercase();
    let end = run(text, at, |c| Class::of(c).any(word) && !c.is_ascii_lowercase());
    if peek(text, end).is_some_and(is_lower) {
        return Some(run(text, end, is_lower));
    }
    let (last, c) = text[at..end].char_indices().rfind(|&(_, c)| is_lower(c))?;
    Some(at + last + c.len_utf8())
}

/// `U+L*`
fn upper(text: &str, at: usize, word: Class) -> Option<usize> {
    let end = run(text, at, |c| Class::of(c).any(word) && !c.is_ascii_lowercase());
    (end > at).then(|| run(text, end, |c| Class::of(c).any(word) && !c.is_ascii_uppercase()))
}

/// Letters with marks and single spaces between them, from the letter at byte `at` on.
fn spaced(text: &str, at: usize) -> usize {
    let mut end = at;
    loop {
        end = run(text, end, |c| Class::of(c).any(Class::LETTER.or(Class::MARK)));
        if peek(text, end) != Some(' ') || !peek(text, end + 1).is_some_and(|c| Class::of(c).any(Class::LETTER)) {
            return end;
        }
        end += 1;
    }
}

/// One piece of the white space from `at` to `end`.
fn halving(text: &str, at: usize, end: usize) -> usize {
    let mut ends = [0; 513];
    let (mut count, mut next) = (0, at);
    for c in text[at..end].chars().take(512) {
        next += c.len_utf8();
        count += 1;
        ends[count] = next;
    }
    let free = |n: &usize| *n <= count && (ends[*n] < end || end == text.len());
    let size = [512, 256, 128, 64, 32, 16, 8, 4, 2, 1].into_iter().find(free).unwrap_or(1);
    ends[size]
}
