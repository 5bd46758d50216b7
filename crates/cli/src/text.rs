//! Texts from the user: arguments, files, stdin; UTF-8 and escapes are checked here, and put back to show bytes that may
//! not be text. What they are for is not known.

use std::{
    fs,
    io::{self, Read},
    path::Path,
};

use crate::errors::Error;

/// A file's text; `-` is stdin.
pub fn of_file(path: &Path) -> Result<String, Error> {
    if path == Path::new("-") {
        return of_stdin();
    }
    let bytes = fs::read(path).map_err(|error| Error::File { path: path.to_owned(), error })?;
    utf8(bytes, &path.display().to_string())
}

/// Everything that comes through stdin.
pub fn of_stdin() -> Result<String, Error> {
    let mut bytes = Vec::new();
    io::stdin().lock().read_to_end(&mut bytes).map_err(|error| Error::File { path: "stdin".into(), error })?;
    utf8(bytes, "stdin")
}

fn utf8(bytes: Vec<u8>, name: &str) -> Result<String, Error> {
    String::from_utf8(bytes).map_err(|error| {
        let offset = error.utf8_error().valid_up_to();
        Error::Utf8 { name: name.to_owned(), offset, byte: error.as_bytes()[offset] }
    })
}

/// The text without one line break at its end, which editors and `echo` put there (and llama.cpp takes away).
pub fn without_last_break(mut text: String) -> String {
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    text
}

/// The text with its escapes read, if `escape` asks for it.
pub fn escaped(text: &str, escape: bool) -> Result<String, Error> {
    if !escape {
        return Ok(text.to_owned());
    }
    let mut read = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        read.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let mut chars = rest.chars();
        let c = match chars.next() {
            Some('n') => '\n',
            Some('t') => '\t',
            Some('r') => '\r',
            Some(c @ ('\\' | '"' | '\'')) => c,
            Some('x') => {
                let digits = rest.get(1..3).and_then(|digits| u8::from_str_radix(digits, 16).ok());
                let byte = digits.filter(u8::is_ascii).ok_or_else(|| unknown(rest, 3))?;
                chars = rest[3..].chars();
                char::from(byte)
            }
            _ => return Err(unknown(rest, 1)),
        };
        read.push(c);
        rest = chars.as_str();
    }
    read.push_str(rest);
    Ok(read)
}

fn unknown(rest: &str, chars: usize) -> Error {
    Error::Escape(rest.chars().take(chars).collect())
}

/// A line of the user's own as it is, except control characters, which a terminal would obey.
pub fn shown(line: &str) -> String {
    line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// A piece between quotes, on one line; a byte that is no character by itself as `\xE2`.
pub fn quoted(piece: &[u8]) -> String {
    let mut text = String::from("'");
    for chunk in piece.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '"' => text.push(c),
                c => text.extend(c.escape_debug()),
            }
        }
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02X}"));
        }
    }
    text.push('\'');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_read_only_when_asked_for() {
        for (text, expected) in [
            (r"a\nb", "a\nb"),
            (r#"\t\r\\\"\'"#, "\t\r\\\"'"),
            (r"\x41\x7e.", "A~."),
            ("caf\u{e9}", "caf\u{e9}"),
            ("", ""),
        ] {
            assert_eq!(escaped(text, true).unwrap(), expected, "{text}");
            assert_eq!(escaped(text, false).unwrap(), text, "{text}");
        }
        for (wrong, shown) in [(r"a\q", "q"), (r"\", ""), (r"\x4", "x4"), (r"\xff", "xff"), ("\\x\u{e9}1", "x\u{e9}1")]
        {
            assert_eq!(escaped(wrong, true).unwrap_err().to_string(), format!("escape \\{shown} is unknown"));
        }
    }

    #[test]
    fn one_line_break_is_taken_away() {
        for (text, expected) in [("a\n", "a"), ("a\r\n", "a"), ("a\n\n", "a\n"), ("a", "a"), ("\n", ""), ("", "")] {
            assert_eq!(without_last_break(text.to_owned()), expected);
        }
    }

    #[test]
    fn the_first_byte_that_is_not_utf8_is_named() {
        let error = utf8(b"ab\xff".to_vec(), "stdin").unwrap_err();
        assert_eq!(error.to_string(), "stdin: expected UTF-8, got byte 0xff at offset 2");
    }

    #[test]
    fn pieces_are_quoted() {
        for (piece, expected) in [
            (b" the".as_slice(), "' the'"),
            (b"it's", r"'it\'s'"),
            (b"\"\n", "'\"\\n'"),
            (b"\xe2\x82", r"'\xE2\x82'"),
            ("\u{e9}".as_bytes(), "'\u{e9}'"),
            (b"", "''"),
        ] {
            assert_eq!(quoted(piece), expected);
        }
    }
}
