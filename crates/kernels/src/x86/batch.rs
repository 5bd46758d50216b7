//! Products of many inputs by blocks of 32 weight rows and 32 inputs: weights of any format are unpacked block by block,
//! inputs packed once, and an engine multiplies what both have become. The engines are AMX's tiles and, here, registers.
#![allow(clippy::needless_range_loop, reason = "the index of a register meets several arrays, with constant bounds")]

mod gate;
pub mod lines;
pub mod mat;
pub mod pack;
pub mod registers;
pub mod unpack;

use crate::Line;

/// What numbers are while they are multiplied.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Form {
    Bf16,
    /// The sum of two.
    TwoBf16,
    F32,
}

impl Form {
    /// Dwords, and so lines of a panel, that a dword's worth of columns takes.
    pub const fn halves(self) -> usize {
        match self {
            Form::Bf16 | Form::F32 => 1,
            Form::TwoBf16 => 2,
        }
    }

    /// Columns of a line: those of a step.
    pub const fn step_cols(self) -> usize {
        match self {
            Form::Bf16 | Form::TwoBf16 => unpack::STEP,
            Form::F32 => 16,
        }
    }

    /// Columns of a panel.
    pub const fn panel_cols(self) -> usize {
        unpack::PANEL_LINES / unpack::BLOCK_ROWS * self.step_cols() / self.halves()
    }

    /// The form of packed inputs.
    const fn packed(self) -> crate::Form {
        match self {
            Form::Bf16 => crate::Form::Bf16,
            Form::TwoBf16 => crate::Form::TwoBf16,
            Form::F32 => crate::Form::F32,
        }
    }
}

/// Lines of a tile.
pub const TILE: usize = 16;
/// Lines of the sums of 32 weight rows with 32 inputs: tiles of 16 x 16, those of the first 16 rows first.
pub const SUMS: usize = 4 * TILE;

/// What a product is added to.
#[derive(Clone, Copy, PartialEq)]
pub enum Begin {
    /// Zero.
    Anew = 1,
    /// What the sums hold.
    Sums = 0,
}

/// A product over some steps of 32 columns.
#[derive(Clone, Copy)]
pub struct Operands<'a> {
    /// Per step: tiles of the first and the last 16 rows; then, with two halves, those of the small ones.
    pub w: &'a [Line],
    /// Per step: tiles of 16 inputs, one or two; then, with two halves, those of the small ones.
    pub x: &'a [Line],
    pub steps: usize,
    /// Where memory is to be brought near for the next product: 4 lines per step.
    pub ahead: *const Line,
}

/// What multiplies blocks.
pub trait Engine {
    /// Inputs from which on it is worth unpacking weights.
    const LEAST: usize;
    /// What a thread has to hold while it multiplies.
    type Ready;

    /// Makes this thread ready.
    ///
    /// # Safety
    /// The processor has what the engine's table asks for; no other `Ready` lives in this thread.
    unsafe fn ready() -> Self::Ready;

    /// Adds the products of 32 weight rows with 32 inputs, or with 16 if `x` has no more. Tiles of sums lie weight row
    /// by weight row. What an element becomes depends on its weight row and input alone.
    ///
    /// # Safety
    /// The processor has what the engine's table asks for.
    unsafe fn multiply(ready: &Self::Ready, sums: &mut [Line; SUMS], operands: Operands<'_>, form: Form, begin: Begin);
}
