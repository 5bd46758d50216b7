//! What a weight format tells the engine: how to turn 256 of its columns into integer sums, one row at a time or as a
//! panel of 8 rows. Not how products are summed: that is `rows` and `panels`.

use std::arch::x86_64::*;

use candor_quant::Format;

use super::multiply::Multiply;
use super::panel::Panel;
use super::twos::Twos;

/// Columns that the kernels take at a time: eight blocks of 32.
pub const GROUP: usize = 256;

/// Eight blocks of a row times eight of the activations, lane = block.
pub struct Products {
    /// Sums of products with factors of halves applied and offsets removed, exact until they are rounded once.
    pub sums: __m256,
    /// What the sums are to be multiplied with.
    pub scale: __m256,
    /// What times the activations' sums is to be subtracted; the second for panels with `Minima::Halves` alone.
    pub minima: [__m256; 2],
}

/// A format of weights that are multiplied with 8-bit activations, by the products of `M`.
///
/// Stable Rust has no safe trait methods with target features, hence the `unsafe`.
pub trait Quant<M: Multiply = Twos> {
    const FORMAT: Format;
    /// Up to this many inputs are quicker one after the other than by panels.
    const FEW_INPUTS: usize = 1;
    /// The bytes of 256 columns.
    type Group: Group;
    /// Eight rows of 256 columns, unpacked.
    type Panel: Panel;

    /// Multiplies a group with 256 activations, whose sums of 16 are `sums`.
    ///
    /// # Safety
    /// The processor has AVX2, FMA and F16C, and the products of `M`.
    unsafe fn products(w: &Self::Group, x: &[i8; GROUP], sums: __m256i) -> Products;

    /// Unpacks a group of eight rows.
    ///
    /// # Safety
    /// The processor has AVX2, FMA and F16C, and the products of `M`.
    unsafe fn unpack(panel: &mut Self::Panel, rows: [&Self::Group; 8]);
}

/// A byte array of some length.
pub trait Group: Copy {
    /// What stands for columns after the end of a row: its scales are 0.
    const PADDING: Self;

    /// A row as whole groups and the bytes that are left.
    fn split(row: &[u8]) -> (&[Self], &[u8]);

    /// The bytes.
    fn bytes(&mut self) -> &mut [u8];
}

impl<const N: usize> Group for [u8; N] {
    const PADDING: Self = [0; N];

    fn split(row: &[u8]) -> (&[Self], &[u8]) {
        row.as_chunks()
    }

    fn bytes(&mut self) -> &mut [u8] {
        self
    }
}
