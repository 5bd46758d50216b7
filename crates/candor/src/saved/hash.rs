//! A quick sum of bytes that notices damage and tells models apart. It is no defence against somebody who wants it to be
//! the same.

use std::fmt;

/// 2^64 divided by the golden ratio, made odd.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// The sum so far: eight bytes at a time, each step invertible, so that a change of one word alone never goes unnoticed.
#[derive(Clone, Debug, Default)]
pub(super) struct Hash {
    state: u64,
    word: [u8; 8],
    filled: usize,
    bytes: u64,
}

impl Hash {
    pub(super) fn update(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        let missing = (8 - self.filled) % 8;
        let (front, rest) = bytes.split_at(missing.min(bytes.len()));
        front.iter().for_each(|&byte| self.push(byte));
        let (words, rest) = rest.as_chunks();
        words.iter().for_each(|&word| self.step(word));
        rest.iter().for_each(|&byte| self.push(byte));
    }

    pub(super) fn finish(mut self) -> u64 {
        let bytes = self.bytes;
        self.word[self.filled..].fill(0);
        self.step(self.word);
        self.step(bytes.to_le_bytes());
        self.state
    }

    fn push(&mut self, byte: u8) {
        self.word[self.filled] = byte;
        self.filled += 1;
        if self.filled == 8 {
            self.filled = 0;
            self.step(self.word);
        }
    }

    fn step(&mut self, word: [u8; 8]) {
        let mixed = (self.state ^ u64::from_le_bytes(word)).wrapping_mul(FACTOR);
        self.state = mixed ^ (mixed >> 29);
    }
}

impl fmt::Write for Hash {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.update(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(bytes: &[u8]) -> u64 {
        let mut hash = Hash::default();
        hash.update(bytes);
        hash.finish()
    }

    #[test]
    fn pieces_do_not_matter_and_every_bit_does() {
        let bytes: Vec<u8> = (0..61u8).map(|i| i.wrapping_mul(37)).collect();
        let expected = whole(&bytes);
        for cut in 0..bytes.len() {
            let mut hash = Hash::default();
            hash.update(&bytes[..cut]);
            hash.update(&bytes[cut..(cut + 3).min(bytes.len())]);
            hash.update(&bytes[(cut + 3).min(bytes.len())..]);
            assert_eq!(hash.finish(), expected, "cut at {cut}");
            assert_ne!(whole(&bytes[..cut]), expected, "only {cut}");
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[cut] ^= 1 << bit;
                assert_ne!(whole(&changed), expected, "bit {bit} of byte {cut}");
            }
        }
        assert_ne!(whole(&[0; 3]), whole(&[0; 4]), "zeros count");
    }
}
