//! A superblock of an input, rounded: what a tile of sums needs of it.

use crate::x86::superblocks::inputs::Packed;

/// 256 columns. Blocks of 32 go in pairs, and what a pair shares lies side by side.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub struct Input {
    /// `[pair][step]`: the columns of a step, as `Pairs` has them.
    pub quants: [[[i8; 4]; 16]; 4],
    /// `[half][pair]`: -32 times the sum of the quants of 16 columns, of the first block and of the second.
    pub offsets: [[[i16; 2]; 4]; 2],
    /// `[pair]`: the blocks' factors.
    pub factors: [[i16; 2]; 4],
    /// `[pair]`: each block's sum of quants times its factor, in sixteenths.
    pub scaled_sums: [[i16; 2]; 4],
    /// A column is its quant times its block's factor times this.
    pub scale: f32,
    rest: [u32; 15],
}

// SAFETY: integers and floats, of a size and alignment that `Packed::LINES` checks; `rest` fills the last line.
unsafe impl Packed for Input {}
