//! Characters of a text and runs of them: what the scanners of pre-tokenization look at.

use crate::class::Class;

/// The character at byte `at`, if there is one.
#[inline]
pub(crate) fn peek(text: &str, at: usize) -> Option<char> {
    match text.as_bytes().get(at) {
        Some(&byte) if byte.is_ascii() => Some(char::from(byte)),
        Some(_) => text[at..].chars().next(),
        None => None,
    }
}

/// Where the run of characters that `belongs` accepts ends, from byte `at` on.
#[inline]
pub(crate) fn run(text: &str, mut at: usize, belongs: impl Fn(char) -> bool) -> usize {
    while let Some(c) = peek(text, at) {
        if !belongs(c) {
            break;
        }
        at += c.len_utf8();
    }
    at
}

pub(crate) fn is_space(c: char) -> bool {
    Class::of(c).any(Class::SPACE)
}

pub(crate) fn is_line_end(c: char) -> bool {
    c == '\r' || c == '\n'
}

/// `\s+(?!\S)|\s+`: white space, less its last character if a word follows, to which that one then belongs.
pub(crate) fn space(text: &str, at: usize) -> usize {
    let end = run(text, at, is_space);
    let last = text[at..end].chars().next_back().map_or(0, char::len_utf8);
    if end < text.len() && end - last > at { end - last } else { end }
}
