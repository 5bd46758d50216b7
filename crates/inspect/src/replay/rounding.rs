//! How engines round the inputs of products.

use candor_gguf::{Format, half};

use crate::Value;

/// How an engine rounds activations before it multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rounding {
    /// Not at all.
    Exact,
    /// As llama.cpp's CPU code: to the weights' type, or to 8 bits in blocks of 32 or 256 for quantized weights.
    Ggml,
    /// To 8 bits in blocks of this many elements with an exact scale, for quantized weights.
    Blocks(usize),
    /// As Candor's CPU code: to 8 bits in blocks of 32, for quantized weights. The largest magnitude becomes whichever whole
    /// number from 120 to 127 leaves the least error.
    Searched,
    /// As Candor's CPU code where it knows superblocks: in rows of a prompt, inputs of Q4_K, Q5_K and Q6_K have 8 bits, a whole
    /// factor per 32 and a float per 256. All else is [`Rounding::Searched`].
    Superblocks,
    /// As Candor's CPU code with AMX: in rows of a prompt, inputs and weights are rounded to bfloat16, except F32 and F16, which
    /// stay as good as exact. Rows that decode are [`Rounding::Searched`].
    Tiles,
    /// To 8 bits in blocks of this many elements with an exact scale, before products with any weights.
    AnyBlocks(usize),
    /// To 8 bits in blocks of 32 with a scale in half precision (Q8_0), before products with any weights.
    AnyQ8,
    /// To 8 bits, a row at a time, before products with any weights.
    Rows,
    /// Inputs and weights to 10 bits of mantissa, as NVIDIA's TF32 does.
    Tf32,
    /// Inputs and weights to half precision.
    Half,
    /// Inputs and weights to bfloat16.
    Bfloat,
    /// By a rule that is not known, which is replayed as not at all.
    Unknown,
}

impl Rounding {
    /// The rounded activations for a weight of this format; the first `prompt` rows are of a prompt.
    pub fn apply(self, x: &Value, format: Format, prompt: usize) -> Value {
        let mut x = x.clone();
        let halves = |values: &mut [f32], through: Format| {
            let mut bytes = vec![0; values.len() * 2];
            if through.encode(values, &mut bytes).is_ok() {
                through.decode(&bytes, values);
            }
        };
        match (self, format) {
            (Rounding::Exact | Rounding::Unknown, _) => {}
            (Rounding::AnyBlocks(size), _) => {
                x.data.chunks_mut(size).for_each(|block| q8(block, 127.0, |scale| scale));
            }
            (Rounding::AnyQ8, _) => x.data.chunks_mut(32).for_each(|block| q8(block, 127.0, stored_half)),
            (Rounding::Rows, _) => {
                x.data.chunks_mut(x.width.max(1)).for_each(|row| q8(row, 127.0, |scale| scale));
            }
            (Rounding::Tf32 | Rounding::Half | Rounding::Bfloat, _) => {
                x.data.iter_mut().for_each(|x| *x = self.rounded(*x));
            }
            (_, Format::F32 | Format::F64) => {}
            (Rounding::Ggml, Format::F16 | Format::Bf16) => halves(&mut x.data, format),
            (Rounding::Tiles, Format::Bf16) => {
                x.data[..prompt * x.width].iter_mut().for_each(|x| *x = Rounding::Bfloat.rounded(*x));
            }
            (_, Format::F16 | Format::Bf16) => {}
            (Rounding::Ggml, _) if is_super_block(format) => q8_k(&mut x.data),
            (Rounding::Ggml, _) => {
                x.data.chunks_mut(32).for_each(|block| q8(block, 127.0, stored_half));
            }
            (Rounding::Blocks(size), _) => x.data.chunks_mut(size).for_each(|block| q8(block, 127.0, |scale| scale)),
            (Rounding::Searched, _) => x.data.chunks_mut(32).for_each(searched),
            (Rounding::Tiles, _) => {
                let (read, decoded) = x.data.split_at_mut(prompt * x.width);
                read.iter_mut().for_each(|x| *x = Rounding::Bfloat.rounded(*x));
                decoded.chunks_mut(32).for_each(searched);
            }
            (Rounding::Superblocks, _) => {
                let prompt = if matches!(format, Format::Q4K | Format::Q5K | Format::Q6K) { prompt } else { 0 };
                let (read, decoded) = x.data.split_at_mut(prompt * x.width);
                read.chunks_mut(x.width.max(1)).flat_map(|row| row.chunks_mut(256)).for_each(superblock);
                decoded.chunks_mut(32).for_each(searched);
            }
        }
        x
    }

    /// Whether inputs are rounded whatever the weights are.
    pub(crate) fn is_general(self) -> bool {
        matches!(self, Rounding::AnyBlocks(_) | Rounding::AnyQ8 | Rounding::Rows) || self.rounds_weights()
    }

    /// Whether weights are rounded, too.
    pub(super) fn rounds_weights(self) -> bool {
        matches!(self, Rounding::Tf32 | Rounding::Half | Rounding::Bfloat)
    }

    /// How the weights of a format are rounded where they meet rows of a prompt alone.
    pub(super) fn of_prompts_weights(self, format: Format) -> Option<Rounding> {
        let rounds = self == Rounding::Tiles && !matches!(format, Format::F32 | Format::F64 | Format::F16);
        rounds.then_some(Rounding::Bfloat)
    }

    /// A number as these floats have it.
    pub(super) fn rounded(self, x: f32) -> f32 {
        let cut = |x: f32, bits: u32| {
            let half = (1 << (bits - 1)) - 1 + (x.to_bits() >> bits & 1);
            f32::from_bits(x.to_bits().wrapping_add(half) & !((1 << bits) - 1))
        };
        match self {
            _ if !x.is_finite() => x,
            Rounding::Tf32 => cut(x, 13),
            Rounding::Bfloat => cut(x, 16),
            Rounding::Half => half::f16_to_f32(half::f32_to_f16(x)),
            _ => x,
        }
    }
}

/// Whether ggml multiplies the format with activations in blocks of 256.
fn is_super_block(format: Format) -> bool {
    format.block_len() == 256
}

/// A scale as it is kept in half precision.
fn stored_half(scale: f32) -> f32 {
    half::f16_to_f32(half::f32_to_f16(scale))
}

/// Rounds to multiples of a scale of which `level` make the largest magnitude.
fn q8(block: &mut [f32], level: f32, store: fn(f32) -> f32) {
    let max = block.iter().fold(0.0f32, |max, x| max.max(x.abs()));
    let scale = max / level;
    let inverse = if scale > 0.0 { 1.0 / scale } else { 0.0 };
    let stored = store(scale);
    block.iter_mut().for_each(|x| *x = (*x * inverse).round() * stored);
}

/// The rounding by a level from 120 to 127 that leaves the least error; of equals, the highest.
fn searched(block: &mut [f32]) {
    let rounded = (120..=127u8).rev().map(|level| {
        let mut rounded = block.to_vec();
        q8(&mut rounded, f32::from(level), |scale| scale);
        let error: f64 = rounded.iter().zip(&*block).map(|(a, b)| f64::from(a - b).powi(2)).sum();
        (error, rounded)
    });
    if let Some((_, best)) = rounded.min_by(|a, b| a.0.total_cmp(&b.0)) {
        block.copy_from_slice(&best);
    }
}

/// ggml's Q8_K: the element of largest magnitude becomes -127.
fn q8_k(values: &mut [f32]) {
    for block in values.chunks_mut(256) {
        let extreme = block.iter().copied().fold(0.0f32, |best, x| if x.abs() > best.abs() { x } else { best });
        if extreme == 0.0 {
            continue;
        }
        let inverse = -127.0 / extreme;
        block.iter_mut().for_each(|x| *x = (*x * inverse).round_ties_even().min(127.0) / inverse);
    }
}

/// A superblock of 256 by a float for all of it and a whole factor for each 32: of eight factors, from the least that fits on,
/// the one that leaves the least error. The float is such that the largest block's least factor is 242. A factor fits where no
/// magnitude is above 127, and where those of 16 neighbours do not add up to more than 1015: flat blocks stay below 127.
fn superblock(values: &mut [f32]) {
    if values.iter().any(|x| !x.is_finite()) {
        return values.fill(f32::NAN);
    }
    let least = |block: &[f32]| {
        let largest = block.iter().fold(0.0f32, |max, x| max.max(x.abs()));
        let sums = block.chunks(16).map(|half| half.iter().map(|x| x.abs()).sum::<f32>() / 1015.0);
        sums.fold(largest / 127.0, f32::max)
    };
    let unit = values.chunks(32).map(least).fold(0.0, f32::max) / 241.99;
    if unit < f32::MIN_POSITIVE {
        return values.fill(0.0);
    }
    let inverse = 1.0 / unit;
    for block in values.chunks_mut(32) {
        let first = (least(block) * inverse).ceil().max(1.0);
        let step = (first / 128.0).max(1.0);
        let by = |factor: f32| {
            let inverse = inverse / factor;
            let quants = block.iter().map(|x| x * inverse);
            let error: f64 = quants.clone().map(|x| f64::from(x - x.round_ties_even()).powi(2)).sum();
            let rounded: Vec<f32> = quants.map(|x| x.round_ties_even() * factor * unit).collect();
            (error * f64::from(factor).powi(2), rounded)
        };
        let tried = (0..8).map(|i| by((first + step * i as f32).round_ties_even()));
        if let Some((_, best)) = tried.min_by(|a, b| a.0.total_cmp(&b.0)) {
            block.copy_from_slice(&best);
        }
    }
}
