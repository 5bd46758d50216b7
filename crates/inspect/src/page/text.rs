//! Text that goes into the page: numbers as base64, data as JSON within HTML, and HTML's own escapes. Whatever comes
//! from a file passes through here.

use serde::{Serialize, Serializer};
use sha2::{Digest, Sha256};

/// Base64 of bytes.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().enumerate().fold(0u32, |word, (at, &byte)| word | u32::from(byte) << (16 - 8 * at));
        for digit in 0..4 {
            let index = (word >> (18 - 6 * digit) & 63) as usize;
            out.push(if digit <= chunk.len() { char::from(DIGITS[index]) } else { '=' });
        }
    }
    out
}

/// Numbers as base64 of little-endian floats: shorter than decimals, exact, and NaN stays NaN.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Floats(pub Vec<f32>);

impl Serialize for Floats {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let bytes: Vec<u8> = self.0.iter().flat_map(|x| x.to_le_bytes()).collect();
        serializer.serialize_str(&base64(&bytes))
    }
}

/// JSON that can stand in a `script` element whatever strings it holds.
pub(super) fn embeddable(json: &str) -> String {
    json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

/// Text for an HTML element.
pub(super) fn html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;").replace('\'', "&#39;")
}

/// What a content security policy calls an inline script or style.
pub(super) fn hash(source: &str) -> String {
    format!("sha256-{}", base64(&Sha256::digest(source.as_bytes())))
}

/// A template with its `{{marks}}` filled in, in one pass: marks in what is filled in stay text.
pub(super) fn fill(template: &str, value: impl Fn(&str) -> String) -> String {
    let mut parts = template.split("{{");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once("}}") {
            Some((mark, rest)) => {
                out.push_str(&value(mark));
                out.push_str(rest);
            }
            None => {
                out.push_str("{{");
                out.push_str(part);
            }
        }
    }
    out
}

/// The first characters of a text, and whether that is less than all.
pub(super) fn clipped(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_rfc() {
        for (text, expected) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(text.as_bytes()), expected);
        }
    }

    #[test]
    fn marks_in_values_stay_text() {
        let filled = fill("<{{a}}|{{b}}>{{", |mark| if mark == "a" { "{{b}}".to_owned() } else { "x".to_owned() });
        assert_eq!(filled, "<{{b}}|x>{{");
    }

    #[test]
    fn texts_are_clipped_between_characters() {
        assert_eq!((clipped("äöü", 3), clipped("äöü", 2)), ("äöü".to_owned(), "äö…".to_owned()));
    }
}
