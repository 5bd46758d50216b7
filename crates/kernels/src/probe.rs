//! What the probes of all tables share: the streams that a read walks, and the sum of what is left over.

use std::array::from_fn;

/// `S` streams that lie far apart, block by block in turn, and the bytes after them.
pub(crate) fn streams<const N: usize, const S: usize>(bytes: &[u8]) -> (impl Iterator<Item = &[u8; N]>, &[u8]) {
    let (blocks, _) = bytes.as_chunks::<N>();
    let each = blocks.len() / S;
    let streams: [_; S] = from_fn(|s| &blocks[s * each..][..each]);
    ((0..each).flat_map(move |i| streams.map(|stream| &stream[i])), &bytes[each * S * N..])
}

/// The sum of the words of 8 bytes and of the single bytes after them.
pub(crate) fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let words = words.iter().fold(0, |sum: u64, word| sum.wrapping_add(u64::from_le_bytes(*word)));
    rest.iter().fold(words, |sum, &byte| sum.wrapping_add(byte.into()))
}
