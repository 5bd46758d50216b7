//! Keys and values as a cache gives them back, and what engines round beside them.

use candor::Format;

use super::Rounding;
use crate::Value;

/// How keys and values are kept between steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    /// The format of keys.
    pub keys: Format,
    /// The format of values.
    pub values: Format,
    /// Whether heads are turned by a Hadamard matrix before they are rounded to blocks, and back behind attention, as
    /// llama.cpp does where a head is a multiple of 64 wide.
    pub turned: bool,
    /// Whether what the cache is multiplied with is rounded to go with it, as llama.cpp does: halves beside halves, 8 bits
    /// beside blocks.
    pub together: bool,
}

impl Default for Cache {
    fn default() -> Self {
        Cache { keys: Format::F32, values: Format::F32, turned: false, together: false }
    }
}

/// Elements that are turned together, or of keys a power of two times as many.
pub(crate) const TURN: usize = 64;

impl Cache {
    /// Queries and keys as scores are made of them; `None` where they stay as they are.
    pub(super) fn scored(self, queries: &Value, keys: &Value, dim: usize) -> [Option<Value>; 2] {
        let mut turn = TURN;
        while dim.is_multiple_of(2 * turn) {
            turn *= 2;
        }
        let turn = self.turn(self.keys, dim, turn);
        let beside = match self.keys {
            Format::F16 | Format::Bf16 => self.keys,
            format if format.block_len() > 1 => Format::Q8_0,
            _ => Format::F32,
        };
        let asked = if self.together { kept(queries, beside, turn) } else { None };
        [asked, kept(keys, self.keys, turn)]
    }

    /// Weights and values as they are mixed; `None` where they stay as they are.
    pub(super) fn mixed(self, weights: &Value, values: &Value, dim: usize) -> [Option<Value>; 2] {
        let halves = self.together && matches!(self.values, Format::F16 | Format::Bf16);
        let weights = if halves { kept(weights, self.values, 0) } else { None };
        [weights, kept(values, self.values, self.turn(self.values, dim, TURN))]
    }

    fn turn(self, format: Format, dim: usize, turn: usize) -> usize {
        if self.turned && format.block_len() > 1 && dim.is_multiple_of(TURN) { turn } else { 0 }
    }
}

/// Rows as a cache of this format gives them back, where `turn` elements were turned together; rows are whole blocks, or
/// nothing is rounded.
fn kept(x: &Value, format: Format, turn: usize) -> Option<Value> {
    if format == Format::F32 || !x.width.is_multiple_of(format.block_len()) {
        return None;
    }
    let mut out = x.clone();
    turned(&mut out.data, turn);
    match format {
        Format::F16 => out.data.iter_mut().for_each(|x| *x = Rounding::Half.rounded(*x)),
        Format::Bf16 => out.data.iter_mut().for_each(|x| *x = Rounding::Bfloat.rounded(*x)),
        Format::Iq4Nl => out.data.chunks_exact_mut(format.block_len()).for_each(unevenly),
        _ => {
            let mut bytes = vec![0; out.data.len() / format.block_len() * format.block_bytes()];
            format.encode(&out.data, &mut bytes).ok()?;
            format.decode(&bytes, &mut out.data);
        }
    }
    turned(&mut out.data, turn);
    Some(out)
}

/// Multiplies runs of this many elements with the orthonormal Walsh-Hadamard matrix, which is its own inverse.
fn turned(values: &mut [f32], size: usize) {
    if size < 2 {
        return;
    }
    let factor = 1.0 / (size as f32).sqrt();
    for part in values.chunks_exact_mut(size) {
        let mut step = 1;
        while step < size {
            for first in (0..size).step_by(2 * step) {
                for at in first..first + step {
                    let [a, b] = [part[at], part[at + step]];
                    [part[at], part[at + step]] = [a + b, a - b];
                }
            }
            step *= 2;
        }
        part.iter_mut().for_each(|x| *x *= factor);
    }
}

/// The sixteen levels of IQ4_NL.
const LEVELS: [f32; 16] = [-127., -104., -83., -65., -49., -35., -22., -10., 1., 13., 25., 38., 53., 69., 89., 113.];

/// Rounds a block as ggml writes IQ4_NL to a cache: the largest magnitude becomes the lowest level, and the scale is the one
/// that fits the levels best, each by the square of its element.
fn unevenly(block: &mut [f32]) {
    const LEAST: f32 = 1e-15;
    let extreme = block.iter().copied().fold(0.0f32, |best, x| if x.abs() > best.abs() { x } else { best });
    if extreme.abs() < LEAST {
        return block.fill(0.0);
    }
    let inverse = 1.0 / (extreme / LEVELS[0]);
    let level = |x: f32| {
        let above = LEVELS.partition_point(|&level| level <= x).clamp(1, LEVELS.len() - 1);
        let [low, high] = [LEVELS[above - 1], LEVELS[above]];
        if x - low < high - x { low } else { high }
    };
    let (mut of_block, mut of_levels) = (0.0f32, 0.0f32);
    for x in block.iter_mut() {
        let (weight, level) = (*x * *x, level(inverse * *x));
        of_block += weight * level * *x;
        of_levels += weight * level * level;
        *x = level;
    }
    let scale = if of_levels > 0.0 { Rounding::Half.rounded(of_block / of_levels) } else { 0.0 };
    block.iter_mut().for_each(|x| *x *= scale);
}

#[cfg(test)]
mod tests {
    use candor_testing::Random;

    use super::*;

    #[test]
    fn heads_that_are_turned_twice_are_as_before() {
        let mut random = Random(5);
        let before: Vec<f32> = (0..256).map(|_| random.signed()).collect();
        let mut values = before.clone();
        turned(&mut values, 128);
        assert!(values.iter().zip(&before).any(|(a, b)| (a - b).abs() > 0.1));
        let size = |values: &[f32]| values.iter().map(|x| x * x).sum::<f32>();
        assert!((size(&values) - size(&before)).abs() < 1e-3);
        turned(&mut values, 128);
        assert!(values.iter().zip(&before).all(|(a, b)| (a - b).abs() < 1e-6));
    }

    #[test]
    fn blocks_of_uneven_levels_have_sixteen_numbers() {
        let mut block: Vec<f32> = (0..32).map(|i| LEVELS[i % 16] * 0.5).collect();
        let before = block.clone();
        unevenly(&mut block);
        assert_eq!(block, before, "levels stay as they are");
        let mut random = Random(6);
        let mut block: Vec<f32> = (0..32).map(|_| random.signed()).collect();
        let before = block.clone();
        unevenly(&mut block);
        let off: f32 = block.iter().zip(&before).map(|(a, b)| (a - b).powi(2)).sum();
        let of: f32 = before.iter().map(|x| x * x).sum();
        assert!(off > 0.0 && off < 0.02 * of, "{off} of {of}");
        let mut nothing = [0.0; 32];
        unevenly(&mut nothing);
        assert_eq!(nothing, [0.0; 32]);
    }
}
