//! How bytes of weights meet bytes of activations: where tables of 256 bits differ. Not what becomes of the sums, which are
//! exact whichever way they come about.

use std::arch::x86_64::*;

use super::format::GROUP;
use super::halves::Factors;
use super::panel::{Columns, Panel};

/// The products of an instruction set.
///
/// Stable Rust has no safe trait methods with target features, hence the `unsafe`.
pub trait Multiply: Copy + 'static {
    /// Eight rows of 256 signed weights of 8 bits.
    type Signed: Signed;
    /// The most inputs of a tile.
    const INPUTS: usize;
    /// Up to this many inputs of signed weights are quicker one after the other than by panels.
    const FEW_SIGNED: usize;

    /// Sums over a block of unsigned weights less `OFFSET` and each input, lane = row. `DEPTH` as in `Narrow`.
    ///
    /// # Safety
    /// The processor has AVX2, FMA and F16C, and what the implementation is named after.
    unsafe fn block<const DEPTH: usize, const OFFSET: i16, const P: usize, const T: usize>(
        columns: [&[Columns; 8]; P],
        x: [&[i8; 32]; T],
        x_sums: [[i16; 2]; T],
    ) -> [[__m256i; P]; T];

    /// The same over half `HALF` of a block.
    ///
    /// # Safety
    /// As `block`.
    unsafe fn half<const HALF: usize, const DEPTH: usize, const OFFSET: i16, const P: usize, const T: usize>(
        columns: [&[Columns; 8]; P],
        x: [&[i8; 32]; T],
        x_sums: [[i16; 2]; T],
    ) -> [[__m256i; P]; T];

    /// As `block` where each half has a factor, rounded once. `DEPTH` as in `Halves`.
    ///
    /// # Safety
    /// As `block`.
    unsafe fn halves<const DEPTH: usize, const OFFSET: i16, const P: usize, const T: usize>(
        columns: [&[Columns; 8]; P],
        factors: [&Factors; P],
        x: [&[i8; 32]; T],
        x_sums: [[i16; 2]; T],
    ) -> [[__m256; P]; T];

    /// Sums over eight blocks of a row's weights of up to 5 bits, lane = block.
    ///
    /// # Safety
    /// As `block`.
    unsafe fn narrow(weights: [__m256i; 8], x: &[i8; GROUP]) -> __m256i;

    /// As `narrow` without adding the halves of 16 columns: the first register has the sums of blocks 0 to 3, first halves in
    /// its lower and second halves in its upper four lanes; the second register blocks 4 to 7.
    ///
    /// # Safety
    /// As `block`.
    unsafe fn narrow_halves(weights: [__m256i; 8], x: &[i8; GROUP]) -> [__m256i; 2];

    /// As `narrow_halves` for weights of 6 bits.
    ///
    /// # Safety
    /// As `block`.
    unsafe fn middle_halves(weights: [__m256i; 8], x: &[i8; GROUP]) -> [__m256i; 2];

    /// As `narrow` for signed weights. `x_sums` are those of 16 activations.
    ///
    /// # Safety
    /// As `block`.
    unsafe fn signed(weights: [__m256i; 8], x: &[i8; GROUP], x_sums: __m256i) -> __m256i;
}

/// A panel of signed weights.
pub trait Signed: Panel {
    /// Sets columns `4k` to `4k + 3` of a block of eight rows.
    ///
    /// # Safety
    /// The processor has AVX2, FMA and F16C.
    unsafe fn set(&mut self, block: usize, k: usize, weights: __m256i);

    /// Scales of eight blocks, lane = row.
    fn scales(&mut self) -> &mut [[f32; 8]; 8];
}
