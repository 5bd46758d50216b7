//! SentencePiece's precompiled map of characters (`tokenizer.ggml.precompiled_charsmap`): which byte strings of a text are
//! replaced by which others, NFKC with exceptions in most vocabularies. The keys are a double-array trie, the replacements
//! strings that end with a zero byte. It comes from a file, so no index of it is trusted.

/// The map.
pub(crate) struct Charsmap {
    /// The double array: 10 to 31 hold the offset of the children, bit 9 shifts it by 8, bit 8 says that a key ends here,
    /// the lowest byte is the label.
    units: Vec<u32>,
    /// The replacements, one after the other.
    replacements: Vec<u8>,
}

impl Charsmap {
    /// From the key's bytes: the length of the trie in bytes, the trie, the replacements. `None` where they do not fit.
    pub fn new(bytes: &[u8]) -> Option<Charsmap> {
        let (length, rest) = bytes.split_first_chunk::<4>()?;
        let (trie, replacements) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        let (units, odd) = trie.as_chunks::<4>();
        let ended = replacements.last().is_none_or(|&last| last == 0);
        (odd.is_empty() && ended).then(|| Charsmap {
            units: units.iter().map(|&unit| u32::from_le_bytes(unit)).collect(),
            replacements: replacements.to_vec(),
        })
    }

    /// The longest key that `text` begins with: its length and what replaces it.
    pub fn longest(&self, text: &[u8]) -> Option<(usize, &[u8])> {
        let offset = |unit: u32| (unit >> 10) << ((unit & (1 << 9)) >> 6);
        let unit = |at: u32| self.units.get(at as usize).copied();
        let mut at = offset(unit(0)?);
        let mut found = None;
        for (place, &byte) in text.iter().enumerate() {
            at ^= u32::from(byte);
            let Some(node) = unit(at).filter(|node| byte != 0 && node & 0x8000_00ff == u32::from(byte)) else { break };
            at ^= offset(node);
            if node & (1 << 8) != 0 {
                found = Some((place + 1, unit(at)? & 0x7fff_ffff));
            }
        }
        let (length, start) = found?;
        let rest = self.replacements.get(start as usize..)?;
        Some((length, rest.split(|&byte| byte == 0).next()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A map of one key, `A`, to `xy`.
    fn map() -> Vec<u8> {
        let mut units = vec![0u32; 256];
        // The root's children lie at 0x80 ^ label; the leaf's value lies at its own place ^ 0x21.
        units[0] = 0x80 << 10;
        units[0x80 ^ 0x41] = 0x41 | 1 << 8 | 0x21 << 10;
        units[0x80 ^ 0x41 ^ 0x21] = 1 << 31 | 2;
        let mut bytes = 1024u32.to_le_bytes().to_vec();
        bytes.extend(units.iter().flat_map(|unit| unit.to_le_bytes()));
        bytes.extend(b"q\0xy\0");
        bytes
    }

    #[test]
    fn finds_what_is_there() {
        let map = Charsmap::new(&map()).unwrap();
        assert_eq!(map.longest(b"Abc"), Some((1, b"xy".as_slice())));
        for text in ["", "a", "bA", "\0", "\u{e9}"] {
            assert_eq!(map.longest(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn broken_maps_are_refused_or_find_nothing() {
        let whole = map();
        for length in 0..whole.len() {
            if let Some(map) = Charsmap::new(&whole[..length]) {
                map.longest(b"A");
            }
        }
        assert!(Charsmap::new(&whole[..3]).is_none() && Charsmap::new(&whole[..1027]).is_none());
        for byte in 0..1030 {
            let mut bytes = whole.clone();
            bytes[byte] ^= 0xff;
            if let Some(map) = Charsmap::new(&bytes) {
                map.longest(b"A\xff\x01zA");
            }
        }
    }
}
