//! K-quants with many inputs: what a superblock of 256 columns adds up to is a whole number.
//!
//! A block of weights has a scale of 6 or 8 bits beside its superblock's float. Inputs are rounded likewise: 32 columns
//! share a whole number of 8 bits, 256 a float. So the sum of a block's products, which is made to fit 16 bits, meets the
//! product of both scales in one multiplication of words that adds two blocks, and floats are met once per superblock. The
//! row kernels, which apply a float to each block, take a twentieth to a fifth more multiplications.
//!
//! Sums are exact up to a superblock's, which is rounded a few times. Their bits are not those of the row kernels, whose
//! inputs have a float for each block.
#![allow(clippy::needless_range_loop, reason = "the index of a register meets several arrays, with constant bounds")]

pub mod avx2;
pub mod inputs;
mod mat;
pub mod vnni;

use candor_quant::Format;

use self::avx2::pairs::Pairs;
use super::avx2::twos::Twos;
use super::avxvnni::fours::Fours;
use crate::BatchKernels;

/// Columns of a superblock.
pub const COLS: usize = 256;

/// How a block's products come to fit 16 bits, sums of inputs' magnitudes over 16 columns being at most 1023.
#[derive(Clone, Copy, PartialEq)]
pub enum Sums {
    /// Weights of up to 15.
    Blocks,
    /// Weights of up to 31: halves of 16 columns apart.
    Halves,
    /// Weights of up to 63: halves apart, which have factors of their own, and weights less 32.
    CentredHalves,
}

/// The kernels of a format by AVX-512 VNNI.
pub fn vnni(format: Format) -> Option<BatchKernels> {
    use vnni::{Vnni, formats::*};
    match format {
        Format::Q4K => Some(mat::kernels::<Vnni<Q4K>>()),
        Format::Q5K => Some(mat::kernels::<Vnni<Q5K>>()),
        Format::Q6K => Some(mat::kernels::<Vnni<Q6K>>()),
        _ => None,
    }
}

/// The kernels of a format by AVX2.
pub fn avx2(format: Format) -> Option<BatchKernels> {
    narrow::<Twos>(format)
}

/// The kernels of a format by AVX-VNNI.
pub fn avxvnni(format: Format) -> Option<BatchKernels> {
    narrow::<Fours>(format)
}

fn narrow<M: Pairs>(format: Format) -> Option<BatchKernels> {
    use avx2::{Avx2, formats::*};
    match format {
        Format::Q4K => Some(mat::kernels::<Avx2<M, Q4K>>()),
        Format::Q5K => Some(mat::kernels::<Avx2<M, Q5K>>()),
        Format::Q6K => Some(mat::kernels::<Avx2<M, Q6K>>()),
        _ => None,
    }
}
