//! Formats whose blocks of 256 share a scale: Q2_K to Q6_K and IQ4_XS, seen as eight blocks of 32.
//!
//! Layouts: ggml-common.h and ggml-quants, `dequantize_row_*`.

use candor_quant::Format;

use super::q8::{Block, Blocks, f16_at};
use crate::array;
use crate::weights::{IQ4_VALUES, Minima};

/// 2 bits; 4-bit scale and minimum per 16.
pub struct Q2K;
/// 3 bits less 4; 6-bit scale per 16.
pub struct Q3K;
/// 4 bits; 6-bit scale and minimum per 32.
pub struct Q4K;
/// 5 bits; 6-bit scale and minimum per 32.
pub struct Q5K;
/// 6 bits less 32; 8-bit scale per 16.
pub struct Q6K;
/// 4 bits into a table; 6-bit scale per 32.
pub struct Iq4Xs;

/// The bytes of the block of 256 that holds block `index` of 32, and its place there.
fn place(row: &[u8], index: usize, format: Format) -> (&[u8], usize) {
    (&row[index / 8 * format.block_bytes()..][..format.block_bytes()], index % 8)
}

/// Scale and minimum `j` of the 12 bytes that Q4_K and Q5_K pack eight of each into.
fn scale_min(packed: &[u8], j: usize) -> (u8, u8) {
    if j < 4 {
        (packed[j] & 63, packed[j + 4] & 63)
    } else {
        let low = packed[j + 4];
        ((low & 15) | (packed[j - 4] >> 6) << 4, (low >> 4) | (packed[j] >> 6) << 4)
    }
}

impl Blocks for Q2K {
    const FORMAT: Format = Format::Q2K;
    const MINIMA: Minima = Minima::Halves;

    // 16 scale bytes, 64 of quants, d, dmin
    fn block(row: &[u8], index: usize) -> Block {
        let (bytes, j) = place(row, index, Self::FORMAT);
        let (scales, quants) = (&bytes[j * 2..j * 2 + 2], &bytes[16 + j / 4 * 32..]);
        let (d, dmin) = (f16_at(bytes, 80), f16_at(bytes, 82));
        Block {
            quants: array::of(|i| ((quants[i] >> (j % 4 * 2)) & 3) as i8),
            factors: array::of(|h| i32::from(scales[h] & 15)),
            scale: d,
            minima: array::of(|h| dmin * f32::from(scales[h] >> 4)),
        }
    }
}

impl Blocks for Q3K {
    const FORMAT: Format = Format::Q3K;
    const MINIMA: Minima = Minima::None;

    // 32 bytes of third bits, 64 of lower bits, 12 of scales, d
    fn block(row: &[u8], index: usize) -> Block {
        let (bytes, j) = place(row, index, Self::FORMAT);
        let (quants, scales) = (&bytes[32 + j / 4 * 32..], &bytes[96..108]);
        let factor = |k: usize| {
            let low = (scales[k % 8] >> (k / 8 * 4)) & 15;
            let high = (scales[8 + k % 4] >> (k / 4 * 2)) & 3;
            i32::from(low | high << 4) - 32
        };
        Block {
            quants: array::of(|i| {
                let low = (quants[i] >> (j % 4 * 2)) & 3;
                (low | ((bytes[i] >> j) & 1) << 2) as i8 - 4
            }),
            factors: [factor(j * 2), factor(j * 2 + 1)],
            scale: f16_at(bytes, 108),
            minima: [0.0; 2],
        }
    }
}

impl Blocks for Q4K {
    const FORMAT: Format = Format::Q4K;
    const MINIMA: Minima = Minima::Whole;

    // d, dmin, 12 bytes of scales, 128 of quants
    fn block(row: &[u8], index: usize) -> Block {
        let (bytes, j) = place(row, index, Self::FORMAT);
        let quants = &bytes[16 + j / 2 * 32..];
        let (scale, minimum) = scale_min(&bytes[4..16], j);
        Block {
            quants: array::of(|i| ((quants[i] >> (j % 2 * 4)) & 15) as i8),
            factors: [1; 2],
            scale: f16_at(bytes, 0) * f32::from(scale),
            minima: [f16_at(bytes, 2) * f32::from(minimum); 2],
        }
    }
}

impl Blocks for Q5K {
    const FORMAT: Format = Format::Q5K;
    const MINIMA: Minima = Minima::Whole;

    // d, dmin, 12 bytes of scales, 32 of fifth bits, 128 of quants
    fn block(row: &[u8], index: usize) -> Block {
        let (bytes, j) = place(row, index, Self::FORMAT);
        let (high, quants) = (&bytes[16..48], &bytes[48 + j / 2 * 32..]);
        let (scale, minimum) = scale_min(&bytes[4..16], j);
        Block {
            quants: array::of(|i| {
                let low = (quants[i] >> (j % 2 * 4)) & 15;
                (low | ((high[i] >> j) & 1) << 4) as i8
            }),
            factors: [1; 2],
            scale: f16_at(bytes, 0) * f32::from(scale),
            minima: [f16_at(bytes, 2) * f32::from(minimum); 2],
        }
    }
}

impl Blocks for Q6K {
    const FORMAT: Format = Format::Q6K;
    const MINIMA: Minima = Minima::None;

    // 128 bytes of lower bits, 64 of upper bits, 16 scales, d
    fn block(row: &[u8], index: usize) -> Block {
        let (bytes, j) = place(row, index, Self::FORMAT);
        // Each half of 128 columns has 64 bytes of lower and 32 of upper bits.
        let (half, quarter) = (j / 4, j % 4);
        let (low, high) = (&bytes[half * 64 + quarter % 2 * 32..], &bytes[128 + half * 32..]);
        Block {
            quants: array::of(|i| {
                let upper = (high[i] >> (quarter * 2)) & 3;
                ((low[i] >> (quarter / 2 * 4)) & 15 | upper << 4) as i8 - 32
            }),
            factors: array::of(|h| i32::from(bytes[192 + j * 2 + h] as i8)),
            scale: f16_at(bytes, 208),
            minima: [0.0; 2],
        }
    }
}

impl Blocks for Iq4Xs {
    const FORMAT: Format = Format::Iq4Xs;
    const MINIMA: Minima = Minima::None;

    // d, 2 bytes of upper and 4 of lower scale bits, 128 of quants
    fn block(row: &[u8], index: usize) -> Block {
        let (bytes, j) = place(row, index, Self::FORMAT);
        let quants = &bytes[8 + j * 16..];
        let low = (bytes[4 + j / 2] >> (j % 2 * 4)) & 15;
        let high = (bytes[2 + j / 4] >> (j % 4 * 2)) & 3;
        let factor = i32::from(low | high << 4) - 32;
        Block {
            quants: array::of(|i| IQ4_VALUES[usize::from((quants[i % 16] >> (i / 16 * 4)) & 15)]),
            factors: [1; 2],
            scale: f16_at(bytes, 0) * factor as f32,
            minima: [0.0; 2],
        }
    }
}
