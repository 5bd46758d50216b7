//! What both ways of packing share: where a piece lies, and inputs as the lines that they are kept in.

use super::COLS;
use crate::Line;

/// Inputs of a piece.
pub const INPUTS: usize = 32;
/// What magnitudes of 16 columns may add up to before they are rounded, which adds 8 at most: 1023 times 32 fits 16 bits.
pub const FLAT: f32 = 1015.0;
/// The factor that the largest block of a superblock needs; those above it are left to choose from.
pub const LARGEST: f32 = 241.99;
/// Factors that are tried.
pub const FACTORS: usize = 8;

/// A superblock of an input, rounded.
///
/// # Safety
/// Consists of numbers without padding, of whole lines, aligned as a line is: any bytes are a value.
pub unsafe trait Packed: Copy {
    /// Lines that it takes.
    const LINES: usize = {
        assert!(size_of::<Self>().is_multiple_of(size_of::<Line>()) && align_of::<Self>() == align_of::<Line>());
        size_of::<Self>() / size_of::<Line>()
    };

    /// What lines hold: as many inputs as there are whole ones.
    fn all(lines: &[Line]) -> &[Self] {
        // SAFETY: that number of inputs lies in the lines, which are aligned as they are, and any bytes are an input.
        unsafe { std::slice::from_raw_parts(lines.as_ptr().cast(), lines.len() / Self::LINES) }
    }

    /// [`Packed::all`], to be written.
    fn all_mut(lines: &mut [Line]) -> &mut [Self] {
        // SAFETY: as above, and an input has no padding, so that whatever is written to it leaves lines behind.
        unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), lines.len() / Self::LINES) }
    }
}

/// What a piece is to hold: a superblock of some inputs.
pub struct Piece<'a> {
    x: &'a [f32],
    cols: usize,
    first: usize,
    start: usize,
    /// Inputs.
    pub count: usize,
}

impl Piece<'_> {
    /// Superblock by superblock, inputs lie one after the other.
    pub fn new(x: &[f32], cols: usize, index: usize) -> Piece<'_> {
        assert!(cols > 0 && cols.is_multiple_of(COLS), "inputs: {cols} columns, not whole superblocks");
        assert!(x.len().is_multiple_of(cols), "inputs: {} floats in rows of {cols}", x.len());
        let rows = x.len() / cols;
        let pieces = rows.div_ceil(INPUTS);
        let (first, start) = (index % pieces * INPUTS, index / pieces * COLS);
        Piece { x, cols, first, start, count: INPUTS.min(rows - first) }
    }

    /// The superblock of input `t` of the piece.
    pub fn row(&self, t: usize) -> &[f32; COLS] {
        self.x[(self.first + t) * self.cols + self.start..].first_chunk().expect("a superblock of a row")
    }
}
