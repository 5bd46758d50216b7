//! Formats whose blocks of 32 stand alone, each with its own scale: Q4_0 to Q8_0, IQ4_NL and MXFP4; and NVFP4, with two.
//!
//! Layouts: ggml-quants, `dequantize_row_*`. Nibbles hold element `i` low and element `i + 16` high.

use candor_quant::Format;

use super::q8::{Block, Blocks, f16_at};
use crate::array;
use crate::weights::{E4M3_UNIT, FP4_VALUES, IQ4_VALUES, Minima, half_e4m3, half_power};

/// 4 bits less 8.
pub struct Q4_0;
/// 4 bits and a minimum.
pub struct Q4_1;
/// 5 bits less 16.
pub struct Q5_0;
/// 5 bits and a minimum.
pub struct Q5_1;
/// 8 bits.
pub struct Q8_0;
/// 4 bits into a table.
pub struct Iq4Nl;
/// 4-bit floats, a power of two as scale.
pub struct Mxfp4;
/// 4-bit floats, an 8-bit one as scale of each 16.
pub struct Nvfp4;

/// Element `i` of 16 bytes of nibbles.
#[inline]
fn nibble(bytes: &[u8], i: usize) -> u8 {
    (bytes[i % 16] >> (i / 16 * 4)) & 15
}

/// A block without factors; `minimum` is subtracted.
fn plain(quants: [i8; 32], scale: f32, minimum: f32) -> Block {
    Block { quants, factors: [1; 2], scale, minima: [minimum; 2] }
}

fn bytes_of(row: &[u8], index: usize, format: Format) -> &[u8] {
    &row[index * format.block_bytes()..][..format.block_bytes()]
}

impl Blocks for Q4_0 {
    const FORMAT: Format = Format::Q4_0;
    const MINIMA: Minima = Minima::None;

    fn block(row: &[u8], index: usize) -> Block {
        let bytes = bytes_of(row, index, Self::FORMAT);
        plain(array::of(|i| nibble(&bytes[2..], i) as i8 - 8), f16_at(bytes, 0), 0.0)
    }
}

impl Blocks for Q4_1 {
    const FORMAT: Format = Format::Q4_1;
    const MINIMA: Minima = Minima::Whole;

    fn block(row: &[u8], index: usize) -> Block {
        let bytes = bytes_of(row, index, Self::FORMAT);
        plain(array::of(|i| nibble(&bytes[4..], i) as i8), f16_at(bytes, 0), -f16_at(bytes, 2))
    }
}

impl Blocks for Q5_0 {
    const FORMAT: Format = Format::Q5_0;
    const MINIMA: Minima = Minima::None;

    fn block(row: &[u8], index: usize) -> Block {
        let bytes = bytes_of(row, index, Self::FORMAT);
        let high = |i: usize| (bytes[2 + i / 8] >> (i % 8)) & 1;
        let quants = array::of(|i| (nibble(&bytes[6..], i) | high(i) << 4) as i8 - 16);
        plain(quants, f16_at(bytes, 0), 0.0)
    }
}

impl Blocks for Q5_1 {
    const FORMAT: Format = Format::Q5_1;
    const MINIMA: Minima = Minima::Whole;

    fn block(row: &[u8], index: usize) -> Block {
        let bytes = bytes_of(row, index, Self::FORMAT);
        let high = |i: usize| (bytes[4 + i / 8] >> (i % 8)) & 1;
        let quants = array::of(|i| (nibble(&bytes[8..], i) | high(i) << 4) as i8);
        plain(quants, f16_at(bytes, 0), -f16_at(bytes, 2))
    }
}

impl Blocks for Q8_0 {
    const FORMAT: Format = Format::Q8_0;
    const MINIMA: Minima = Minima::None;

    fn block(row: &[u8], index: usize) -> Block {
        let bytes = bytes_of(row, index, Self::FORMAT);
        plain(array::of(|i| bytes[2 + i] as i8), f16_at(bytes, 0), 0.0)
    }
}

impl Blocks for Iq4Nl {
    const FORMAT: Format = Format::Iq4Nl;
    const MINIMA: Minima = Minima::None;

    fn block(row: &[u8], index: usize) -> Block {
        let bytes = bytes_of(row, index, Self::FORMAT);
        let quants = array::of(|i| IQ4_VALUES[usize::from(nibble(&bytes[2..], i))]);
        plain(quants, f16_at(bytes, 0), 0.0)
    }
}

impl Blocks for Mxfp4 {
    const FORMAT: Format = Format::Mxfp4;
    const MINIMA: Minima = Minima::None;

    fn block(row: &[u8], index: usize) -> Block {
        let bytes = bytes_of(row, index, Self::FORMAT);
        let quants = array::of(|i| FP4_VALUES[usize::from(nibble(&bytes[1..], i))]);
        plain(quants, half_power(bytes[0]), 0.0)
    }
}

impl Blocks for Nvfp4 {
    const FORMAT: Format = Format::Nvfp4;
    const MINIMA: Minima = Minima::None;

    // The file's blocks are twice as long: four scales, then 8 bytes for each, whose nibbles are elements `i` and `i + 8`.
    fn block(row: &[u8], index: usize) -> Block {
        let (bytes, first) = (bytes_of(row, index / 2, Self::FORMAT), index % 2 * 2);
        let element = |i: usize| (bytes[4 + 8 * (first + i / 16) + i % 8] >> (i % 16 / 8 * 4)) & 15;
        let quants = array::of(|i| FP4_VALUES[usize::from(element(i))]);
        let factors = [half_e4m3(bytes[first]), half_e4m3(bytes[first + 1])];
        Block { quants, factors, scale: E4M3_UNIT, minima: [0.0; 2] }
    }
}
