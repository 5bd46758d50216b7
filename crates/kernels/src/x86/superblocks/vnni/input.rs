//! A superblock of an input, rounded: what a tile of sums needs of it, in the order in which it does.

use crate::x86::superblocks::inputs::Packed;

/// 256 columns. Blocks of 32 go in pairs, and what a pair shares lies side by side.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub struct Input {
    /// `[step][pair]`: columns `4 step..4 step + 4` of the first block, then of the second.
    pub quants: [[[i8; 8]; 4]; 8],
    /// `[half][pair]`: -32 times the sum of the quants of 16 columns, of the first block and of the second.
    pub offsets: [[[i32; 2]; 4]; 2],
    /// `[pair]`: the blocks' factors.
    pub factors: [[i16; 2]; 4],
    /// `[pair]`: each block's sum of quants times its factor, in sixteenths.
    pub scaled_sums: [[i16; 2]; 4],
    /// A column is its quant times its block's factor times this.
    pub scale: f32,
    rest: [u32; 7],
}

impl Input {
    pub const ZERO: Input = Input {
        quants: [[[0; 8]; 4]; 8],
        offsets: [[[0; 2]; 4]; 2],
        factors: [[0; 2]; 4],
        scaled_sums: [[0; 2]; 4],
        scale: 0.0,
        rest: [0; 7],
    };
}

// SAFETY: integers and floats, of a size and alignment that `Packed::LINES` checks; `rest` fills the last line.
unsafe impl Packed for Input {}
