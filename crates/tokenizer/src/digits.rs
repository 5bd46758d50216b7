//! Digits in groups of three. Groups that are counted from the right need the whole run, so these steps cut a whole text
//! in one go; asked piece by piece they would be quadratic.

use crate::class::Class;
use crate::runs::{peek, run};

/// `[0-9]{3}` from byte `at` on: the end of the piece that starts there.
pub(crate) fn triples(text: &str, at: usize) -> usize {
    let triple = |digits: &[u8]| digits.iter().all(u8::is_ascii_digit);
    match text.as_bytes()[at..].windows(3).position(triple) {
        Some(0) => at + 3,
        Some(n) => at + n,
        None => text.len(),
    }
}

/// Runs of `\p{N}` in groups of three from the right: 12345 is 12 and 345. As in llama.cpp the first group takes the text
/// before it along, which shows where a later step looks ahead: two spaces before a digit come apart.
pub(crate) fn cut_numbers<'a>(text: &'a str, piece: &mut dyn FnMut(&'a str)) {
    let is_number = |c: char| Class::of(c).any(Class::NUMBER);
    let mut at = 0;
    while at < text.len() {
        let digits = run(text, at, |c| !is_number(c));
        let end = run(text, digits, is_number);
        let count = text[digits..end].chars().count();
        let first = if count.is_multiple_of(3) { 3 } else { count % 3 };
        // Where the groups end, the first one at least.
        let mut ends = text[digits..end].char_indices().map(|(at, _)| digits + at).chain([end]).skip(first).step_by(3);
        let mut start = at;
        while start < end {
            let group = ends.next().unwrap_or(end);
            piece(&text[start..group]);
            start = group;
        }
        at = end;
    }
}

/// `(?=(\d{3})+(?!\d))`: cuts before every ASCII digit after which a multiple of three are left.
pub(crate) fn cut_before_triples<'a>(text: &'a str, piece: &mut dyn FnMut(&'a str)) {
    let (mut start, mut at) = (0, 0);
    while let Some(c) = peek(text, at) {
        let end = run(text, at, |c| c.is_ascii_digit());
        if end == at {
            at += c.len_utf8();
            continue;
        }
        for cut in (at + (end - at) % 3..end).step_by(3) {
            if cut > start {
                piece(&text[start..cut]);
            }
            start = cut;
        }
        at = end;
    }
    if start < text.len() {
        piece(&text[start..]);
    }
}
