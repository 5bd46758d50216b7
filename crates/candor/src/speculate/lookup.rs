//! Guesses from the text itself: what followed the last tokens where they came before ("prompt lookup decoding", Saxena 2023).

use super::Drafter;
use crate::Error;

/// Guesses that a text which repeats its last tokens goes on as before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PromptLookup {
    /// Tokens that must have come before, at most: more are looked for first.
    pub longest: usize,
    /// Tokens that must have come before, at least.
    pub shortest: usize,
}

impl Default for PromptLookup {
    /// Four tokens, or as few as two: one alone says little.
    fn default() -> Self {
        PromptLookup { longest: 4, shortest: 2 }
    }
}

impl Drafter for PromptLookup {
    fn draft(&mut self, tokens: &[u32], most: usize) -> Result<Vec<u32>, Error> {
        for len in (self.shortest.max(1)..=self.longest.min(tokens.len())).rev() {
            let last = &tokens[tokens.len() - len..];
            // The latest place that something follows.
            if let Some(place) = tokens[..tokens.len() - 1].windows(len).rposition(|window| window == last) {
                let following = &tokens[place + len..];
                return Ok(following[..following.len().min(most)].to_vec());
            }
        }
        Ok(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_and_latest_repetition_goes_on() {
        for (tokens, most, expected) in [
            (&[][..], 4, &[][..]),
            (&[1, 2, 3, 4], 4, &[]),
            // One token alone does not count.
            (&[1, 2, 3, 1], 4, &[]),
            (&[1, 2, 3, 1, 2], 4, &[3, 1, 2]),
            (&[1, 2, 3, 1, 2], 1, &[3]),
            (&[1, 2, 3, 1, 2, 4, 1, 2], 1, &[4]),
            // Three tokens say more than the latest two.
            (&[9, 1, 2, 3, 1, 2, 4, 9, 1, 2], 2, &[3, 1]),
            (&[5, 5, 5], 4, &[5]),
        ] {
            let got = PromptLookup::default().draft(tokens, most).unwrap();
            assert_eq!(got, expected, "{tokens:?}");
        }
    }
}
