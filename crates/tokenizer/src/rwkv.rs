//! RWKV's World tokenizer: the longest token at each place. Tokens are bytes, spelled with `\n`, `\t`, `\r` and `\x80`.

use crate::kind::Kind;
use crate::trie::Trie;
use crate::vocab::Vocab;

/// The tokens, ready to be searched for.
pub(crate) struct Rwkv {
    tokens: Trie,
    unknown: Option<u32>,
}

impl Rwkv {
    pub fn new(vocab: &Vocab, unknown: Option<u32>) -> Rwkv {
        let plain = (0..vocab.len() as u32).filter(|&id| !vocab.kind(id).any(Kind::RESERVED));
        let texts: Vec<_> = plain.filter_map(|id| Some((decode(vocab.text(id)?), id))).collect();
        Rwkv { tokens: Trie::new(texts.iter().map(|(text, id)| (text.as_slice(), *id)).collect()), unknown }
    }

    /// Appends the ids of `text`; a byte that begins no token is unknown.
    pub fn encode(&self, text: &str, out: &mut Vec<u32>) {
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            let length = match self.tokens.longest(rest) {
                Some((length, id)) => {
                    out.push(id);
                    length
                }
                None => {
                    out.extend(self.unknown);
                    1
                }
            };
            rest = &rest[length..];
        }
    }
}

/// The bytes that a token's text spells.
pub(crate) fn decode(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        match rest.next() {
            Some(b'n') => bytes.push(b'\n'),
            Some(b't') => bytes.push(b'\t'),
            Some(b'r') => bytes.push(b'\r'),
            Some(b'x') => {
                let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16));
                if let (Some(high), Some(low)) = (digit(), digit()) {
                    bytes.push((high * 16 + low) as u8);
                }
            }
            Some(other) => bytes.push(other),
            None => {}
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes() {
        let cases: [(&str, &[u8]); 7] = [
            ("a\\nb\\t\\r", b"a\nb\t\r"),
            ("\\xe4\\xb8", b"\xe4\xb8"),
            ("\\\\x41", b"\\x41"),
            ("\\'", b"'"),
            ("\u{4e2d}", "\u{4e2d}".as_bytes()),
            ("\\x4", b""),
            ("a\\", b"a"),
        ];
        for (text, bytes) in cases {
            assert_eq!(decode(text), bytes, "{text}");
        }
    }
}
