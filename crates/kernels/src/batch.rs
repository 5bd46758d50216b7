//! Kernels for many inputs at once: inputs are packed once, weights unpacked
//! block by block. Not the row kernels of [`MatKernels`](crate::MatKernels), whose bits they do not reproduce.

use std::ops::Range;

/// 64 bytes on a boundary of 64: what packed inputs and scratch memory consist of.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
pub struct Line(pub [u32; 16]);

impl Line {
    /// 64 bytes of zeros.
    pub const ZERO: Line = Line([0; 16]);

    /// The floats that lines consist of.
    pub fn floats(lines: &[Line]) -> &[f32] {
        // SAFETY: a `Line` is 16 dwords without padding, aligned more strictly than a float, and any dword is a float.
        unsafe { std::slice::from_raw_parts(lines.as_ptr().cast(), lines.len() * 16) }
    }

    /// The same, to be written.
    pub fn floats_mut(lines: &mut [Line]) -> &mut [f32] {
        // SAFETY: as above; any float is a dword, too.
        unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), lines.len() * 16) }
    }
}

/// What becomes of inputs when they are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Rounded to bfloat16: 8 significant bits.
    Bf16,
    /// The sum of two bfloat16: 16 significant bits or more.
    TwoBf16,
    /// As they are.
    F32,
    /// Rounded to 8 bits: 256 columns share a float, 32 of them a whole number.
    Int8,
}

/// Packs what a block of sums of gate and up becomes, `silu(gate) * up`; the block has up to [`SIDE`] rows.
pub type Gate = fn(block: &mut [Line], gate: &Sums, up: &Sums, rows: usize);

/// How inputs are packed: in pieces of up to `inputs` rows of up to `cols` columns, each filled by itself.
///
/// Piece `p * ceil(rows / inputs) + b` holds the `b`-th rows of the `p`-th columns.
#[derive(Clone, Copy, Debug)]
pub struct Packing {
    /// Inputs packed in one form serve every weight that wants it.
    pub form: Form,
    /// Input rows of a piece; the last ones have fewer.
    pub inputs: usize,
    /// Columns of a piece; the last ones have fewer.
    pub cols: usize,
    /// Room that every piece takes, whether it fills it or not.
    pub lines: usize,
    /// Fills piece `index` from rows of `cols` floats.
    pub pack: fn(piece: &mut [Line], x: &[f32], cols: usize, index: usize),
    /// Fills [`Packing::block`] from blocks of sums: columns are `silu(gate) * up` of their weight rows, of which there are
    /// `rows`, then zeros. What [`crate::F32Kernels::swiglu`] and `pack` make of the sums, to the bit. `None` where inputs are
    /// not packed from sums.
    pub gate: Option<Gate>,
}

/// Weight rows, and inputs, of a block of sums.
pub const SIDE: usize = 32;

/// A block of sums: tiles of 16 lines, of which each has a weight row's sums of 16 inputs. First those of the first 16 rows.
pub type Sums = [Line; 4 * 16];

impl Packing {
    /// Room for `inputs` packed rows of `cols` columns.
    pub fn room(&self, inputs: usize, cols: usize) -> usize {
        inputs.div_ceil(self.inputs) * cols.div_ceil(self.cols) * self.lines
    }

    /// Where, of `inputs` packed rows, [`SIDE`] rows from `input` lie with as many columns from `column`. Both are multiples of it,
    /// and pieces consist of such blocks.
    pub fn block(&self, inputs: usize, input: usize, column: usize) -> Range<usize> {
        let piece = column / self.cols * inputs.div_ceil(self.inputs) + input / self.inputs;
        let whole = self.lines * SIDE / self.cols;
        // Up to 16 inputs take half of the room.
        let lines = if inputs - input > SIDE / 2 { whole } else { whole / 2 };
        let start = piece * self.lines + column % self.cols / SIDE * lines;
        start..start + lines
    }
}

/// A product of some weight rows with packed inputs.
#[derive(Debug)]
pub struct BatchTask<'a> {
    /// `rows` weight rows, back to back.
    pub w: &'a [u8],
    /// Weight rows.
    pub rows: usize,
    /// Columns of a row.
    pub cols: usize,
    /// Input rows.
    pub inputs: usize,
    /// The packed inputs: [`Packing::room`] lines.
    pub x: &'a [Line],
    /// [`BatchKernels::scratch`] lines at least, whatever they hold.
    pub scratch: &'a mut [Line],
}

/// Takes the outputs of an input: its number and an output of every weight row.
pub type Emit<'a> = dyn FnMut(usize, &[f32]) + 'a;

/// The batch kernels of one weight format.
#[derive(Clone, Copy)]
pub struct BatchKernels {
    /// Input rows from which on they are worth it.
    pub least: usize,
    /// How they want their inputs.
    pub packing: &'static Packing,
    /// Lines of scratch memory for a product of `rows` weight rows with `inputs` input rows.
    pub scratch: fn(rows: usize, inputs: usize) -> usize,
    /// Calls `emit` once for each input `t`, in order, with `out[o] = w[o] . x[t]` of every weight row.
    ///
    /// The value of an element depends on its weight row and input row alone, not on how many are computed together.
    pub mat: fn(task: BatchTask<'_>, emit: &mut Emit<'_>),
    /// A part of the same product: adds what one piece's columns give to sums in scratch memory, block by block of weight rows and in
    /// these of inputs; the first piece replaces them. After the last they have the bits that `mat` hands out. `None` where sums have
    /// another order.
    pub sums: Option<fn(task: BatchTask<'_>, piece: usize)>,
}
