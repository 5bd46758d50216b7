//! A superblock of an input, rounded: what a tile of sums needs of it, in the order in which it does.

use crate::Line;

/// 256 columns. Blocks of 32 go in pairs, and what a pair shares lies side by side.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub struct Input {
    /// `[step][pair]`: columns `4 step..4 step + 4` of the first block, then of the second.
    pub quants: [[[i8; 8]; 4]; 8],
    /// `[half][pair]`: -32 times the sum of the quants of 16 columns, of the first block and of the second.
    pub offsets: [[[i32; 2]; 4]; 2],
    /// `[pair]`: the blocks' factors a and b as a, b, b, a.
    pub factors: [[i16; 4]; 4],
    /// `[pair]`: each block's sum of quants times its factor, in sixteenths.
    pub scaled_sums: [[i16; 2]; 4],
    /// A column is its quant times its block's factor times this.
    pub scale: f32,
    rest: [u32; 3],
}

/// Lines of an input's superblock.
pub const LINES: usize = size_of::<Input>() / size_of::<Line>();

impl Input {
    pub const ZERO: Input = Input {
        quants: [[[0; 8]; 4]; 8],
        offsets: [[[0; 2]; 4]; 2],
        factors: [[0; 4]; 4],
        scaled_sums: [[0; 2]; 4],
        scale: 0.0,
        rest: [0; 3],
    };

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
