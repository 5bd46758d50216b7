//! The numbers by which known faults are recognised.

use candor::Format;

/// How much of a matrix a loader that guessed its size brought along, and which guess that was.
pub(super) struct Share {
    /// Loaded bytes over all bytes.
    pub(super) share: f64,
    /// The guess.
    pub(super) cause: String,
}

/// Sizes guessed by engines that were found to (wasm-chord, `tensor.rs`): format, bytes per block that they took.
const WRONG_BLOCKS: &[(Format, usize)] = &[(Format::Q4_0, 16), (Format::Q8_0, 33)];

/// The guesses that leave a tail of zeros, those for `format` first.
pub(super) fn shares(format: Format) -> Vec<Share> {
    let half = |format: Format| Share {
        share: format.block_len() as f64 / 2.0 / format.block_bytes() as f64,
        cause: format!("a {format} tensor's size was taken for elements / 2 bytes"),
    };
    let wrong = WRONG_BLOCKS.iter().map(|&(format, bytes)| Share {
        share: bytes as f64 / format.block_bytes() as f64,
        cause: format!("a {format} block was taken for {bytes} bytes instead of {}", format.block_bytes()),
    });
    let others = Format::ALL.iter().copied().filter(|&other| other != format);
    let halves = std::iter::once(format).chain(others).filter(|format| format.block_len() > 1).map(half);
    let (own, rest): (Vec<Share>, Vec<Share>) =
        halves.chain(wrong).filter(|share| share.share < 1.0).partition(|share| share.cause.contains(format.name()));
    own.into_iter().chain(rest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_known_shares() {
        for (format, percent) in [
            (Format::Q8_0, 47.06),
            (Format::Q4K, 88.89),
            (Format::Q5K, 72.73),
            (Format::Q6K, 60.95),
            (Format::Q4_0, 88.89),
        ] {
            let first = &shares(format)[0];
            assert!((first.share * 100.0 - percent).abs() < 0.01, "{format}: {}", first.share);
            assert!(first.cause.contains(format.name()), "{}", first.cause);
        }
    }
}
