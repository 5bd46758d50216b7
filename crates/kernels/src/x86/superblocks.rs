//! K-quants with many inputs, by the byte dot products of VNNI: what a superblock of 256 columns adds up to is a whole number.
//!
//! A block of weights has a scale of 6 or 8 bits beside its superblock's float. Inputs are rounded likewise: 32 columns
//! share a whole number of 8 bits, 256 a float. So the sum of a block's products, which is made to fit 16 bits, meets the
//! product of both scales in one multiplication of words that adds two blocks, and floats are met once per superblock:
//! 79 multiplications for 16 rows, 256 columns and an input of Q4_K, 64 of which multiply bytes. The row kernels, which
//! apply a float to each block, take 88.
//!
//! Sums are exact up to a superblock's, which is rounded once or a few times. Their bits are not those of the row kernels,
//! whose inputs have a float for each block.
#![allow(clippy::needless_range_loop, reason = "the index of a register meets several arrays, with constant bounds")]

mod formats;
mod input;
mod mat;
mod pack;
mod panel;
mod tile;

#[cfg(all(test, target_os = "linux"))]
mod tests;

use candor_quant::Format;

use crate::BatchKernels;

/// Columns of a superblock.
const COLS: usize = 256;

/// The kernels of a format.
pub fn kernels(format: Format) -> Option<BatchKernels> {
    match format {
        Format::Q4K => Some(mat::kernels::<formats::Q4K>()),
        Format::Q5K => Some(mat::kernels::<formats::Q5K>()),
        Format::Q6K => Some(mat::kernels::<formats::Q6K>()),
        _ => None,
    }
}
