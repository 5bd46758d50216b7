//! The scanner of DeepSeek V3's expression and its kin. What no alternative matches (digits, unassigned characters) is a
//! piece up to the next match.

use crate::class::Class;
use crate::runs::{is_line_end, is_space, peek, run, space};

/// `[ASCII punctuation][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`, or
/// with ` ?[\p{P}\p{S}]+|[\r\n]` where line ends stand alone.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LineEnds {
    Joined,
    Alone,
}

/// The end of the match at byte `at`, if something matches there.
pub(crate) fn matched(text: &str, at: usize, first: char, line_ends: LineEnds) -> Option<usize> {
    const MARKS: Class = Class::PUNCTUATION.or(Class::SYMBOL);
    const WORD: Class = Class::LETTER.or(Class::MARK);
    let class = Class::of(first);
    let second = at + first.len_utf8();
    let next = peek(text, second);
    if first.is_ascii_punctuation() && next.is_some_and(|c| c.is_ascii_alphabetic()) {
        return Some(run(text, second, |c| c.is_ascii_alphabetic()));
    }
    let is_word = |c: char| Class::of(c).any(WORD);
    let prefix = !is_line_end(first) && !class.any(MARKS.or(Class::LETTER));
    if class.any(WORD) || prefix && next.is_some_and(is_word) {
        return Some(run(text, second, is_word));
    }
    let is_mark = |c: char| Class::of(c).any(MARKS);
    let start = if first == ' ' { second } else { at };
    if peek(text, start).is_some_and(is_mark) {
        let end = run(text, start, is_mark);
        return Some(match line_ends {
            LineEnds::Joined => run(text, end, is_line_end),
            LineEnds::Alone => end,
        });
    }
    if !class.any(Class::SPACE) {
        return None;
    }
    Some(match line_ends {
        LineEnds::Alone if is_line_end(first) => second,
        LineEnds::Alone => space(text, at),
        LineEnds::Joined => {
            let end = run(text, at, is_space);
            text[at..end].rfind(is_line_end).map_or_else(|| space(text, at), |last| at + last + 1)
        }
    })
}
