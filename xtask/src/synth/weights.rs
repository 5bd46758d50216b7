//! Random weights of a wanted mean square, in any format that the mixtures use.
//!
//! Quantized blocks are not encoded from floats: their quants are random bytes, their scales follow from what a block
//! with scale 1 decodes to. That is as fast as memory, and every bit pattern of the quants occurs.

use std::thread;

use candor_quant::Format;
use candor_quant::half::f32_to_f16;

/// How values are spread. Quantized formats have a mean of 0.
#[derive(Clone, Copy)]
pub struct Spread {
    pub mean: f32,
    pub deviation: f32,
}

/// Blocks are made in pieces of this many elements, each with its own seed, so that threads change nothing.
const PIECE: usize = 1 << 18;

/// A tensor's bytes. The name is the seed.
pub fn make(format: Format, elements: usize, spread: Spread, name: &str) -> Vec<u8> {
    let bytes = format.row_bytes(elements).expect("shapes are whole blocks");
    let mut data = vec![0; bytes];
    let piece_bytes = format.row_bytes(PIECE).expect("pieces are whole blocks");
    let seed = name.bytes().fold(0u64, |seed, byte| (seed ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    let mut pieces: Vec<_> = data.chunks_mut(piece_bytes).zip(0u64..).collect();
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let share = pieces.len().div_ceil(threads);
    thread::scope(|scope| {
        for pieces in pieces.chunks_mut(share) {
            scope.spawn(move || {
                for (piece, number) in pieces {
                    let mut random = Random(seed ^ (*number << 32));
                    match dressing(format) {
                        Some(dressing) => dressing.fill(format, piece, spread.deviation, &mut random),
                        None => floats(format, piece, spread, &mut random),
                    }
                }
            });
        }
    });
    data
}

/// Bell-shaped floats: sums of four bytes.
fn floats(format: Format, piece: &mut [u8], spread: Spread, random: &mut Random) {
    // The variance of a byte is (256^2 - 1) / 12.
    let step = spread.deviation / (4.0 * 65535.0 / 12.0f32).sqrt();
    let mut values = [0.0; 1024];
    for bytes in piece.chunks_mut(1024 * format.block_bytes()) {
        let values = &mut values[..bytes.len() / format.block_bytes()];
        for pair in values.chunks_mut(2) {
            let bytes = random.next().to_le_bytes();
            for (value, bytes) in pair.iter_mut().zip(bytes.as_chunks::<4>().0) {
                let sum: i32 = bytes.iter().map(|byte| i32::from(*byte)).sum();
                *value = spread.mean + step * (sum as f32 - 510.0);
            }
        }
        format.encode(values, bytes).expect("a format of plain numbers");
    }
}

/// What makes random bytes a sane block.
struct Dressing {
    scale: Scale,
    /// Offset of the f16 minimum, and what it is in multiples of the scale: it puts the mean of the values at 0.
    minimum: Option<(usize, f32)>,
    /// Makes the smaller scales of a block of equal size and their minima equal to them.
    even: fn(&mut [u8]),
}

/// Where a block's scale is.
#[derive(Clone, Copy)]
enum Scale {
    /// An f16 at this offset.
    Half(usize),
    /// A power of two, as a byte: its exponent and 127.
    Power(usize),
    /// Four E4M3 numbers, at the beginning.
    Floats,
}

/// An E4M3 number without a sign.
fn e4m3(byte: u8) -> f32 {
    let (exponent, mantissa) = (i32::from(byte >> 3), f32::from(byte & 7));
    if exponent == 0 { mantissa / 512.0 } else { (8.0 + mantissa) * 2f32.powi(exponent - 10) }
}

/// `None` for plain numbers.
fn dressing(format: Format) -> Option<Dressing> {
    let plain = |scale| Some(Dressing { scale: Scale::Half(scale), minimum: None, even: |_| {} });
    let with_minimum =
        |scale, minimum, even| Some(Dressing { scale: Scale::Half(scale), minimum: Some(minimum), even });
    match format {
        Format::Q4_0 | Format::Q5_0 | Format::Iq4Nl | Format::Iq4Xs => plain(0),
        Format::Iq1S | Format::Iq2Xxs | Format::Iq2Xs | Format::Iq2S | Format::Iq3Xxs | Format::Iq3S => plain(0),
        Format::Q3K => plain(108),
        Format::Tq1_0 => plain(52),
        Format::Tq2_0 => Some(Dressing {
            scale: Scale::Half(64),
            minimum: None,
            // No encoder makes 3: 3 becomes 1.
            even: |block| block[..64].iter_mut().for_each(|q| *q &= !((*q & (*q << 1)) & 0b1010_1010)),
        }),
        Format::Mxfp4 => Some(Dressing { scale: Scale::Power(0), minimum: None, even: |_| {} }),
        Format::Nvfp4 => Some(Dressing { scale: Scale::Floats, minimum: None, even: |_| {} }),
        // No encoder makes -128.
        Format::Q8_0 => Some(Dressing {
            scale: Scale::Half(0),
            minimum: None,
            even: |block| block[2..].iter_mut().for_each(|q| *q = (*q as i8).max(-127) as u8),
        }),
        Format::Q4_1 => with_minimum(0, (2, -7.5), |_| {}),
        Format::Q5_1 => with_minimum(0, (2, -15.5), |_| {}),
        Format::Q2K => with_minimum(80, (82, 1.5), |block| {
            for both in &mut block[..16] {
                *both = (*both & 15 | 8) * 17;
            }
        }),
        Format::Q4K | Format::Q5K => {
            let middle = if format == Format::Q4K { 7.5 } else { 15.5 };
            with_minimum(0, (2, middle), |block| {
                // The 6-bit numbers of groups 0-3 and the upper bits of 4-7; from 32 up, scales and minima alike.
                for j in 4..8 {
                    block[j] |= 0b1010_0000;
                    block[j + 4] = block[j];
                    block[j + 8] = (block[j + 8] & 15) * 17;
                }
            })
        }
        // Signed scales of either sign, from 64 up.
        Format::Q6K => Some(Dressing {
            scale: Scale::Half(208),
            minimum: None,
            even: |block| {
                for scale in &mut block[192..208] {
                    let size = (*scale & 31) as i8 + 64;
                    *scale = if *scale & 128 == 0 { size } else { -size } as u8;
                }
            },
        }),
        _ => None,
    }
}

impl Dressing {
    fn fill(&self, format: Format, piece: &mut [u8], deviation: f32, random: &mut Random) {
        random.fill(piece);
        let rms = self.rms(format, random);
        for block in piece.chunks_exact_mut(format.block_bytes()) {
            (self.even)(block);
            // Scales differ by up to a quarter, and have either sign where no minimum depends on it.
            let bits = random.next();
            let size = deviation / rms * (0.75 + (bits & 0xffff) as f32 / 131_072.0);
            let scale = if self.minimum.is_none() && bits >> 63 == 1 { -size } else { size };
            self.put(block, scale, bits >> 32 & 0xffff);
        }
    }

    /// Sets a scale. A power of two is one of those beside it, as often as makes the mean square that of the scale; `chance`,
    /// up to 65535, says which.
    fn put(&self, block: &mut [u8], scale: f32, chance: u64) {
        match self.scale {
            Scale::Half(at) => block[at..][..2].copy_from_slice(&f32_to_f16(scale).to_le_bytes()),
            Scale::Power(at) => {
                let power = scale.abs().log2().floor();
                let square = (scale.abs() / power.exp2()).powi(2);
                let above = (square - 1.0) / 3.0 * 65536.0 > chance as f32;
                block[at] = (power + if above { 128.0 } else { 127.0 }) as u8;
            }
            Scale::Floats => {
                let off = |byte: &u8| (e4m3(*byte) - scale.abs()).abs();
                let nearest = (0..0x7f).min_by(|a, b| off(a).total_cmp(&off(b)));
                block[..4].fill(nearest.unwrap_or_default());
            }
        }
        if let Some((at, times)) = self.minimum {
            block[at..][..2].copy_from_slice(&f32_to_f16(scale * times).to_le_bytes());
        }
    }

    /// Root mean square of blocks whose scale is 1.
    fn rms(&self, format: Format, random: &mut Random) -> f32 {
        const BLOCKS: usize = 64;
        let mut bytes = vec![0; BLOCKS * format.block_bytes()];
        random.fill(&mut bytes);
        for block in bytes.chunks_exact_mut(format.block_bytes()) {
            (self.even)(block);
            self.put(block, 1.0, 0xffff);
        }
        let mut values = vec![0.0; BLOCKS * format.block_len()];
        format.decode(&bytes, &mut values);
        (values.iter().map(|v| v * v).sum::<f32>() / values.len() as f32).sqrt()
    }
}

/// SplitMix64: fast, seeded, and random enough for weights.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_le_bytes()[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use candor_convert::{Model, Tensor};

    use super::super::kinds::{KINDS, Kind};
    use super::*;

    #[test]
    fn every_format_has_the_wanted_mean_and_spread() {
        let parts = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"];
        let named = |layer| parts.map(|part| format!("blk.{layer}.{part}.weight"));
        let names: Vec<String> =
            (0..32).flat_map(named).chain(["token_embd.weight", "output.weight"].map(str::to_owned)).collect();
        let model =
            |grouped| Model { architecture: "llama".into(), layers: 32, grouped, experts: 0, shares_values: false };
        // Rows of 32 have what stands in.
        let wanted = |(kind, cols, grouped): (&Kind, u64, u32)| {
            let shape = [cols, 256];
            let tensors: Vec<_> =
                names.iter().map(|name| Tensor { name, format: Format::F32, shape: &shape }).collect();
            kind.mix(false).choices(&model(grouped), &tensors)
        };
        let shapes = [(256, 1), (256, 4), (32, 1)];
        let cases = KINDS.iter().flat_map(|kind| shapes.map(|(cols, grouped)| (kind, cols, grouped)));
        let formats: BTreeSet<Format> =
            cases.filter_map(|case| wanted(case).ok()).flatten().map(|choice| choice.format).collect();
        assert!(formats.len() > 20, "{formats:?}");
        for format in formats {
            let elements = 3 * PIECE + 512;
            let bytes = make(format, elements, Spread { mean: 0.0, deviation: 0.02 }, "blk.0.attn_q.weight");
            let mut values = vec![0.0; elements];
            format.decode(&bytes, &mut values);
            let count = elements as f64;
            let mean = values.iter().map(|&v| f64::from(v)).sum::<f64>() / count;
            let rms = (values.iter().map(|&v| f64::from(v) * f64::from(v)).sum::<f64>() / count).sqrt();
            assert!((rms / 0.02 - 1.0).abs() < 0.05, "{format}: rms {rms}");
            assert!(mean.abs() < 0.0004, "{format}: mean {mean}");
        }
    }

    #[test]
    fn a_name_always_makes_the_same_weights() {
        let make = |name| make(Format::Q4K, 512, Spread { mean: 0.0, deviation: 1.0 }, name);
        assert_eq!(make("a"), make("a"));
        assert_ne!(make("a"), make("b"));
    }
}
