//! A superblock of an input, rounded: what a tile of sums needs of it.

use crate::Line;

/// 256 columns. Blocks of 32 go in pairs, and what a pair shares lies side by side.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub struct Input {
    /// `[pair][step]`: columns `2 step..2 step + 2` of the first block, then of the second.
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

/// Lines of an input's superblock.
pub const LINES: usize = size_of::<Input>() / size_of::<Line>();

impl Input {
    /// What lines hold: as many inputs as there are whole ones.
    pub fn all(lines: &[Line]) -> &[Input] {
        let count = lines.len() / LINES;
        // SAFETY: so many inputs lie in the lines, which are aligned as they are, and any bytes are an input.
        unsafe { std::slice::from_raw_parts(lines.as_ptr().cast(), count) }
    }

    /// [`Input::all`], to be written.
    pub fn all_mut(lines: &mut [Line]) -> &mut [Input] {
        let count = lines.len() / LINES;
        // SAFETY: as above, and an input has no padding, so that whatever is written to it leaves lines behind.
        unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), count) }
    }
}

const _: () = assert!(size_of::<Input>() == 6 * size_of::<Line>() && align_of::<Input>() == align_of::<Line>());
