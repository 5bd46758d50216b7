//! Lines on a terminal that break between words. What goes elsewhere stays as it is.

use std::{
    env,
    io::{self, IsTerminal, Write},
    mem,
};

use terminal_size::{Width, terminal_size_of};
use unicode_width::UnicodeWidthChar;

/// Narrower terminals break their lines themselves.
const NARROWEST: usize = 20;
/// What begins and ends a block of code.
const FENCE: &str = "```";
/// Punctuation of Chinese and Japanese that no line begins with.
const CLOSING: &str = "，。、！？：；）」』】》〉”’…";

/// The columns of stdout's terminal.
pub fn of_stdout() -> Option<usize> {
    let out = io::stdout();
    if out.is_terminal() { columns(terminal_size_of(out)) } else { None }
}

/// The columns of stderr's terminal.
pub fn of_stderr() -> Option<usize> {
    let out = io::stderr();
    if out.is_terminal() { columns(terminal_size_of(out)) } else { None }
}

fn columns(size: Option<(Width, terminal_size::Height)>) -> Option<usize> {
    let dumb = env::var_os("TERM").is_some_and(|term| term == "dumb");
    let (Width(columns), _) = size?;
    Some(usize::from(columns)).filter(|&columns| columns >= NARROWEST && !dumb)
}

/// A text in lines no wider than the columns, all but its first with `indent` spaces before them.
pub fn hanging(text: &str, indent: usize, columns: Option<usize>) -> String {
    let mut lines = Wrap::new(Vec::new(), columns);
    lines.indent = if columns.is_some_and(|columns| columns >= indent + NARROWEST) { indent } else { 0 };
    // Nothing can go wrong in memory.
    let _ = lines.write_all(text.as_bytes()).and_then(|()| lines.end());
    String::from_utf8_lossy(&lines.out).into_owned()
}

/// Writes text on, and begins a new line where a word does not fit. A word is held back until it ends; words longer than a line
/// and blocks of code are left alone.
pub struct Wrap<W: Write> {
    out: W,
    /// `None` hands everything on.
    columns: Option<usize>,
    /// Spaces before lines that were begun here.
    indent: usize,
    /// Columns of the line that are written.
    column: usize,
    /// What is between the last word and the next.
    gap: String,
    /// The word so far, and its columns.
    word: String,
    wide: usize,
    /// Whether the word was too long to be held back.
    is_endless: bool,
    /// The first letters of the line, and whether it is part of a block of code.
    head: String,
    in_code: bool,
    escape: Escape,
    /// Bytes of a character that is not whole.
    bytes: Vec<u8>,
}

/// Where in a sequence that moves or colours.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Escape {
    Outside,
    Begun,
    /// Until a letter.
    Control,
    /// Until BEL, or a sequence of its own.
    Text,
}

impl<W: Write> Wrap<W> {
    /// A writer of lines no wider than the columns; of lines as they are without.
    pub fn new(out: W, columns: Option<usize>) -> Wrap<W> {
        Wrap {
            out,
            columns,
            indent: 0,
            column: 0,
            gap: String::new(),
            word: String::new(),
            wide: 0,
            is_endless: false,
            head: String::new(),
            in_code: false,
            escape: Escape::Outside,
            bytes: Vec::new(),
        }
    }

    /// Writes what was held back.
    pub fn end(&mut self) -> io::Result<()> {
        self.place()?;
        let rest = mem::take(&mut self.bytes);
        self.out.write_all(&rest)?;
        let gap = mem::take(&mut self.gap);
        self.out.write_all(gap.as_bytes())
    }

    fn text(&mut self, text: &str, columns: usize) -> io::Result<()> {
        for c in text.chars() {
            if self.escape(c) {
                self.word.push(c);
                continue;
            }
            if c == '\n' {
                self.place()?;
                let gap = mem::take(&mut self.gap);
                writeln!(self.out, "{gap}")?;
                if self.head.starts_with(FENCE) {
                    self.in_code = !self.in_code;
                }
                self.head.clear();
                self.column = 0;
                continue;
            }
            if self.head.len() < FENCE.len() && !(self.head.is_empty() && c == ' ') {
                self.head.push(c);
            }
            if self.in_code || self.head.starts_with(FENCE) {
                self.place()?;
                let gap = mem::take(&mut self.gap);
                write!(self.out, "{gap}{c}")?;
                continue;
            }
            match c.width().unwrap_or(0) {
                _ if c == ' ' || c == '\t' => {
                    self.place()?;
                    self.is_endless = false;
                    self.gap.push(c);
                }
                // Between wide characters a line may end, but before none that closes.
                wide @ 2.. => {
                    if !CLOSING.contains(c) {
                        self.place()?;
                    }
                    self.word.push(c);
                    self.wide += wide;
                }
                wide => {
                    if self.word.chars().next_back().is_some_and(|last| last.width() > Some(1)) && c.is_alphanumeric() {
                        self.place()?;
                    }
                    self.word.push(c);
                    self.wide += wide;
                }
            }
            if self.wide > columns || self.is_endless {
                self.is_endless = true;
                self.place()?;
            }
        }
        Ok(())
    }

    /// Whether a character belongs to a sequence that moves or colours.
    fn escape(&mut self, c: char) -> bool {
        let before = self.escape;
        self.escape = match (before, c) {
            (Escape::Outside, '\u{1b}') | (Escape::Text, '\u{1b}') => Escape::Begun,
            (Escape::Outside, _) => Escape::Outside,
            (Escape::Begun, '[') => Escape::Control,
            (Escape::Begun, ']') => Escape::Text,
            (Escape::Begun, _) | (Escape::Text, '\u{7}') => Escape::Outside,
            (Escape::Control, '\u{40}'..='\u{7e}') => Escape::Outside,
            (inside, _) => inside,
        };
        before != Escape::Outside || self.escape != Escape::Outside
    }

    /// Writes the word, on a new line where it does not fit.
    fn place(&mut self) -> io::Result<()> {
        if self.word.is_empty() {
            return Ok(());
        }
        let (word, gap) = (mem::take(&mut self.word), mem::take(&mut self.gap));
        let (columns, wide) = (self.columns.unwrap_or(usize::MAX), mem::take(&mut self.wide));
        let space = gap.chars().fold(0, |at, c| at + if c == '\t' { 8 - (self.column + at) % 8 } else { 1 });
        let fits = self.column + space + wide <= columns;
        // A sequence alone needs no room, and a line that has nothing yet gains nothing by another.
        if fits || wide == 0 || self.column == 0 || self.is_endless {
            write!(self.out, "{gap}{word}")?;
            self.column += space + wide;
        } else {
            write!(self.out, "\n{:1$}{word}", "", self.indent)?;
            self.column = self.indent + wide;
        }
        if self.column > columns {
            // The terminal has broken it.
            self.column = (self.column - 1) % columns + 1;
        }
        Ok(())
    }
}

impl<W: Write> Write for Wrap<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(columns) = self.columns else { return self.out.write(bytes) };
        let mut all = mem::take(&mut self.bytes);
        all.extend_from_slice(bytes);
        let mut rest = all.as_slice();
        loop {
            match std::str::from_utf8(rest) {
                Ok(text) => {
                    self.text(text, columns)?;
                    break;
                }
                Err(error) => {
                    let (whole, broken) = rest.split_at(error.valid_up_to());
                    self.text(&String::from_utf8_lossy(whole), columns)?;
                    match error.error_len() {
                        // It may become one.
                        None => {
                            self.bytes = broken.to_vec();
                            break;
                        }
                        Some(length) => {
                            self.text("\u{fffd}", columns)?;
                            rest = &broken[length..];
                        }
                    }
                }
            }
        }
        Ok(bytes.len())
    }

    /// Hands on what is placed; a word that has not ended stays.
    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl<W: Write> Drop for Wrap<W> {
    fn drop(&mut self) {
        // What was held back is not lost where writing ended early; a fault was one before.
        let _ = self.end().and_then(|()| self.out.flush());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes of a text that is written in pieces of every size.
    fn wrapped(text: &str, columns: usize) -> String {
        let whole = hanging(text, 0, Some(columns));
        for size in [1, 2, 3, 7] {
            let mut out = Vec::new();
            let mut wrap = Wrap::new(&mut out, Some(columns));
            for piece in text.as_bytes().chunks(size) {
                wrap.write_all(piece).unwrap();
                wrap.flush().unwrap();
            }
            drop(wrap);
            assert_eq!(String::from_utf8(out).unwrap(), whole, "pieces of {size}");
        }
        whole
    }

    #[test]
    fn lines_break_between_words() {
        for (text, expected) in [
            ("", ""),
            ("one two three four five\n", "one two three four\nfive\n"),
            ("exactly twenty chars next", "exactly twenty chars\nnext"),
            ("one\n\n two  three\tfour", "one\n\n two  three\tfour"),
            ("a longish line  breaks", "a longish line\nbreaks"),
            ("word ends \n", "word ends \n"),
            ("see https://example.org/a/very/long/path for that", "see https://example.org/a/very/long/path\nfor that"),
        ] {
            assert_eq!(wrapped(text, 20), expected, "{text:?}");
        }
    }

    #[test]
    fn code_stays_as_it_is() {
        let text = "Here is some code for you:\n```rust\nlet a_long_line = of_code(that, goes, on);\n```\nand then words that wrap\n";
        let expected = "Here is some code\nfor you:\n```rust\nlet a_long_line = of_code(that, goes, on);\n```\nand then words that\nwrap\n";
        assert_eq!(wrapped(text, 20), expected);
    }

    #[test]
    fn characters_have_their_width_and_sequences_none() {
        assert_eq!(wrapped("一二三四五六七八九十，一二", 20), "一二三四五六七八九\n十，一二");
        assert_eq!(wrapped("abcdefgh 一二三四五六七", 20), "abcdefgh 一二三四五\n六七");
        let dim = "\u{1b}[2mone two three\u{1b}[0m four five";
        assert_eq!(wrapped(dim, 20), "\u{1b}[2mone two three\u{1b}[0m four\nfive");
        assert_eq!(wrapped("\u{1b}]0;a long title here\u{7}one two", 20), "\u{1b}]0;a long title here\u{7}one two");
    }

    #[test]
    fn later_lines_hang() {
        let row = "  name  what it means in words";
        assert_eq!(hanging(row, 8, Some(28)), "  name  what it means in\n        words");
        assert_eq!(hanging(row, 8, Some(21)), "  name  what it means\nin words");
        assert_eq!(hanging(row, 8, None), row);
    }
}
