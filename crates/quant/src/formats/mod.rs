//! The codecs of the formats: the layout of one block each. The table in `format.rs` says which is whose.
//!
//! Offsets are bytes from the start of a block. The order of float operations in a decoder is part of the format:
//! it is the `gguf` package's, so that results agree bit for bit.
//!
//! A block's decoder is a function of its own and always inlined, so that
//! [`crate::blocks`] can hand it to kernels.

pub mod codebook;
mod fit;
pub(crate) mod fp4;
mod group;
pub(crate) mod iq1;
pub(crate) mod iq2;
pub(crate) mod iq3;
pub(crate) mod iq4;
mod k_quants;
mod nearest;
pub(crate) mod plain;
mod points;
pub(crate) mod q1;
pub(crate) mod q2;
pub(crate) mod q2_k;
pub(crate) mod q3_k;
pub(crate) mod q4;
pub(crate) mod q4_k;
pub(crate) mod q5;
pub(crate) mod q5_k;
pub(crate) mod q6_k;
pub(crate) mod q8;
mod search;
mod shape;
pub(crate) mod tq;

use crate::half::{f16_to_f32, f32_to_f16};

pub(crate) type Decode = fn(&[u8], &mut [f32]);
/// Values, their importance, blocks.
pub(crate) type Encode = fn(&[f32], Option<&[f32]>, &mut [u8]);

/// What a format does to a row. Lengths were checked by the caller.
pub(crate) struct Codec {
    /// Little-endian blocks to floats.
    pub decode: Decode,
    /// Floats to little-endian blocks: a row where there is importance, else any run of blocks.
    pub encode: Option<Encode>,
    /// The fields of a block whose bytes depend on the byte order.
    pub words: &'static [Words],
}

/// A run of equal multi-byte fields in a block.
pub(crate) struct Words {
    /// Offset of the first.
    pub at: usize,
    /// Bytes of each: 2, 4 or 8.
    pub width: usize,
    /// How many.
    pub count: usize,
    /// Bytes from one to the next.
    pub step: usize,
}

impl Words {
    /// `count` fields of `width` bytes side by side.
    const fn new(at: usize, width: usize, count: usize) -> Words {
        Words { at, width, count, step: width }
    }

    /// Reverses the bytes of these fields of one block.
    pub fn reverse_in(&self, block: &mut [u8]) {
        for i in 0..self.count {
            let at = self.at + i * self.step;
            self.reverse(&mut block[at..at + self.width]);
        }
    }

    /// Reverses the bytes of each of the words that `run` consists of.
    pub fn reverse(&self, run: &mut [u8]) {
        match self.width {
            2 => run.as_chunks_mut::<2>().0.iter_mut().for_each(|word| word.reverse()),
            4 => run.as_chunks_mut::<4>().0.iter_mut().for_each(|word| word.reverse()),
            _ => run.chunks_exact_mut(self.width).for_each(|word| word.reverse()),
        }
    }
}

/// Keeps what is done in one pass of a loop apart from the next: groups become vector code by themselves, of which the compiler
/// would make less across them.
#[inline(always)]
pub(crate) fn apart() {
    std::hint::black_box(());
}

/// `out = scale * quant`, with a scale for each half. One loop, and not two of 16, which would be unrolled before they can become
/// vector code.
#[inline(always)]
fn scaled(out: &mut [f32; 32], scales: [f32; 2], quants: &[i8; 32]) {
    for i in 0..32 {
        let scale = if i < 16 { scales[0] } else { scales[1] };
        out[i] = scale * f32::from(quants[i]);
    }
}

/// Encodes a row to blocks of `B` bytes and `L` elements.
#[inline(always)]
fn encode_blocks<const B: usize, const L: usize>(
    values: &[f32],
    importance: Option<&[f32]>,
    bytes: &mut [u8],
    encode: impl Fn(&[f32; L], Option<&[f32; L]>, &mut [u8; B]),
) {
    let importance = importance.map(|importance| importance.as_chunks().0);
    for (i, (values, block)) in values.as_chunks().0.iter().zip(bytes.as_chunks_mut().0).enumerate() {
        encode(values, importance.map(|importance| &importance[i]), block);
    }
}

/// The importance of block `i`.
#[inline(always)]
fn importance_of<const L: usize>(importance: Option<&[f32]>, i: usize) -> Option<&[f32; L]> {
    importance.map(|importance| &importance.as_chunks().0[i])
}

/// The 16-bit word at byte `at`.
#[inline(always)]
fn u16_at(block: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([block[at], block[at + 1]])
}

/// The 32-bit word at byte `at`.
#[inline(always)]
fn u32_at(block: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]])
}

/// The half-precision number at byte `at`.
#[inline(always)]
fn f16_at(block: &[u8], at: usize) -> f32 {
    f16_to_f32(u16_at(block, at))
}

/// Stores `value` rounded to half precision at byte `at`.
#[inline(always)]
fn put_f16(block: &mut [u8], at: usize, value: f32) {
    block[at..at + 2].copy_from_slice(&f32_to_f16(value).to_le_bytes());
}

/// Nibble `i` of packed bytes, the low half of a byte first.
#[inline(always)]
fn nibble(bytes: &[u8], i: usize) -> u8 {
    (bytes[i / 2] >> (4 * (i % 2))) & 15
}

/// Packs numbers of four bits, the low half of a byte first.
#[inline(always)]
fn put_nibbles(bytes: &mut [u8], numbers: &[u8]) {
    for (byte, pair) in bytes.iter_mut().zip(numbers.as_chunks::<2>().0) {
        *byte = pair[0] | (pair[1] << 4);
    }
}

/// The reciprocal that encoders multiply by: 0 for a scale of 0, so that a block of zeros stays one.
#[inline(always)]
fn reciprocal(scale: f32) -> f32 {
    if scale == 0.0 { 0.0 } else { 1.0 / scale }
}

/// The value of greatest magnitude, the first of equals; NaN if one is.
#[inline(always)]
fn extreme(values: &[f32]) -> f32 {
    let mut extreme = 0f32;
    for &value in values {
        let larger = value.abs() > extreme.abs() || (value.is_nan() && !extreme.is_nan());
        extreme = if larger { value } else { extreme };
    }
    extreme
}

/// The greatest magnitude; NaN if a value is. As integers, magnitudes keep their order, and NaN is above infinity.
#[inline(always)]
fn magnitude(values: &[f32]) -> f32 {
    let mut greatest = 0;
    for value in values {
        greatest = u32::max(greatest, value.to_bits() & 0x7fff_ffff);
    }
    f32::from_bits(greatest)
}

/// Least and greatest value, the first of equals; both NaN if one is.
#[inline(always)]
fn range(values: &[f32]) -> (f32, f32) {
    let (mut least, mut greatest) = (values[0], values[0]);
    for &value in values {
        if value.is_nan() {
            return (value, value);
        }
        least = if value < least { value } else { least };
        greatest = if value > greatest { value } else { greatest };
    }
    (least, greatest)
}
