//! What the probes of all tables share: the two streams that a read walks, and the sum of what is left over.

/// Blocks of the first half, as many of the second, and the bytes after them. Two streams that lie far apart are faster than
/// one, and than four.
pub(crate) fn streams<const N: usize>(bytes: &[u8]) -> (&[[u8; N]], &[[u8; N]], &[u8]) {
    let (blocks, _) = bytes.as_chunks::<N>();
    let half = blocks.len() / 2;
    (&blocks[..half], &blocks[half..half * 2], &bytes[half * 2 * N..])
}

/// The sum of the words of 8 bytes and of the single bytes after them.
pub(crate) fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let words = words.iter().fold(0, |sum: u64, word| sum.wrapping_add(u64::from_le_bytes(*word)));
    rest.iter().fold(words, |sum, &byte| sum.wrapping_add(byte.into()))
}
