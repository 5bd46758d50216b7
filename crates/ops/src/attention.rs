//! What an attention layer does besides multiplying queries, keys and values.

use crate::{Heads, Step};

/// Which positions of its sequence a row sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mask {
    /// Its own and all before.
    #[default]
    Causal,
    /// Its own and those before, this many together (Beltagy et al. 2020; Mistral counts this way).
    Window(usize),
    /// Its own and those before that lie in the same chunk of this many positions.
    Chunk(usize),
    /// All of its sequence up to the last position of the step.
    Whole,
    /// As [`Mask::Whole`], but at most this many positions away, to both sides.
    Around(usize),
}

impl Mask {
    /// The positions that a row at `position` sees of a sequence of `len` positions.
    pub fn seen(self, position: usize, len: usize) -> std::ops::Range<usize> {
        match self {
            Mask::Causal => 0..position + 1,
            Mask::Window(window) => (position + 1).saturating_sub(window)..position + 1,
            Mask::Chunk(chunk) => position / chunk * chunk..position + 1,
            Mask::Whole => 0..len,
            Mask::Around(away) => position.saturating_sub(away)..len.min(position + away + 1),
        }
    }

    /// Whether later positions are seen too.
    pub fn is_both(self) -> bool {
        matches!(self, Mask::Whole | Mask::Around(_))
    }

    /// Positions before its own that a row may ask for; `None` where there is no limit.
    pub fn reach(self) -> Option<usize> {
        match self {
            Mask::Window(window) => Some(window.saturating_sub(1)),
            Mask::Chunk(chunk) => Some(chunk.saturating_sub(1)),
            Mask::Causal | Mask::Whole | Mask::Around(_) => None,
        }
    }
}

/// An attention layer.
#[derive(Debug)]
pub struct Attention<'a, W> {
    /// How heads lie in a row.
    pub heads: Heads,
    /// Who sees what.
    pub mask: Mask,
    /// `cap * tanh(score / cap)` on scaled scores (Gemma Team 2024).
    pub soft_cap: Option<f32>,
    /// ALiBi's greatest slope exponent (Press et al. 2022): scores get `-slope(h) * distance`.
    pub alibi: Option<f32>,
    /// A score per head that takes part in the softmax and has no value, `[heads]` (OpenAI 2025).
    pub sinks: Option<&'a W>,
    /// Scores added by distance.
    pub relative: Option<Relative<'a, W>>,
}

/// Learned scores by distance (Raffel et al. 2020), `[buckets, heads]`: a row of `table` per bucket.
#[derive(Debug)]
pub struct Relative<'a, W> {
    /// The scores.
    pub table: &'a W,
    /// Rows of the table.
    pub buckets: usize,
    /// Distance from which all fall into the last bucket.
    pub most: usize,
}

impl<W> Clone for Attention<'_, W> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<W> Copy for Attention<'_, W> {}
impl<W> Clone for Relative<'_, W> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<W> Copy for Relative<'_, W> {}

impl<'a, W> Attention<'a, W> {
    /// Causal attention and nothing else.
    pub fn causal(heads: Heads) -> Attention<'a, W> {
        Attention { heads, mask: Mask::Causal, soft_cap: None, alibi: None, sinks: None, relative: None }
    }

    /// The same layer with weights of another kind.
    pub fn map<'b, V>(&self, f: impl Fn(&'a W) -> &'b V) -> Attention<'b, V> {
        let Attention { heads, mask, soft_cap, alibi, sinks, relative } = *self;
        let relative = relative.map(|Relative { table, buckets, most }| Relative { table: f(table), buckets, most });
        Attention { heads, mask, soft_cap, alibi, sinks: sinks.map(&f), relative }
    }
}

/// Positions of a sequence up to the last one of the step.
pub fn sequence_len(step: &Step, sequence: u32) -> usize {
    let places = step.sequences.iter().zip(step.positions).filter(|(s, _)| **s == sequence);
    places.map(|(_, &position)| position as usize + 1).max().unwrap_or(0)
}

/// The slope of a head (Press et al. 2022, section 3; for other numbers than powers of two as in the authors' program).
pub fn alibi_slope(head: usize, heads: usize, max: f32) -> f64 {
    let power = heads.checked_ilog2().map_or(1, |log| 1usize << log);
    let exponent = |numerator: f64| f64::exp2(-f64::from(max) * numerator / power as f64);
    if head < power { exponent(head as f64 + 1.0) } else { exponent((head - power) as f64 + 0.5) }
}

/// The bucket of a key `key - query` positions away: half of the buckets for each direction where both are seen, and in each
/// half the first half for single distances, the rest logarithmically up to `most`.
pub fn relative_bucket(distance: i64, both: bool, buckets: usize, most: usize) -> usize {
    let (side, buckets) = if both { (usize::from(distance > 0) * (buckets / 2), buckets / 2) } else { (0, buckets) };
    let away = if both { distance.unsigned_abs() as usize } else { (-distance).max(0) as usize };
    let exact = buckets / 2;
    if away < exact {
        return side + away;
    }
    let ratio = (away as f32 / exact as f32).ln() / (most as f32 / exact as f32).ln();
    side + (exact + (ratio * (buckets - exact) as f32) as usize).min(buckets - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_let_see() {
        for (mask, position, len, expected) in [
            (Mask::Causal, 3, 9, 0..4),
            (Mask::Window(3), 5, 9, 3..6),
            (Mask::Window(9), 5, 9, 0..6),
            (Mask::Chunk(4), 6, 9, 4..7),
            (Mask::Chunk(4), 3, 9, 0..4),
            (Mask::Whole, 3, 9, 0..9),
            (Mask::Around(2), 1, 9, 0..4),
            (Mask::Around(2), 7, 9, 5..9),
        ] {
            assert_eq!(mask.seen(position, len), expected, "{mask:?}");
        }
    }

    /// The paper's slopes for 8 heads are 1/2, 1/4 ... 1/256; its program's for 12 heads go on with every other one of 16.
    #[test]
    fn slopes_of_the_paper() {
        assert_eq!(
            (0..8).map(|h| alibi_slope(h, 8, 8.0)).collect::<Vec<_>>(),
            [1, 2, 3, 4, 5, 6, 7, 8].map(|n| 0.5f64.powi(n))
        );
        let expected = [0.5, 1.5, 2.5, 3.5].map(|n: f64| f64::exp2(-n));
        assert_eq!((8..12).map(|h| alibi_slope(h, 12, 8.0)).collect::<Vec<_>>(), expected);
    }

    /// Against `T5Attention._relative_position_bucket` of transformers 5.23 (32 buckets, 128).
    #[test]
    fn buckets_as_in_t5() {
        let both =
            [-200, -128, -100, -20, -8, -1, 0, 1, 7, 8, 9, 12, 50, 127, 300].map(|d| relative_bucket(d, true, 32, 128));
        assert_eq!(both, [15, 15, 15, 10, 8, 1, 0, 17, 23, 24, 24, 25, 29, 31, 31]);
        let causal = [5, 0, -1, -15, -16, -30, -127, -128, -500].map(|d| relative_bucket(d, false, 32, 128));
        assert_eq!(causal, [0, 0, 1, 15, 16, 20, 31, 31, 31]);
    }
}
