//! What an instruction set provides: one table of function pointers.

use candor_quant::Format;

use crate::{AttentionKernels, BatchKernels, Function, KeyScan, Q8RowMut, Q8Rows, Scan};

/// The input of a matrix product, in the form that the weights' kernel wants.
#[derive(Clone, Copy, Debug)]
pub enum Activations<'a> {
    /// `[rows * cols]` floats.
    F32 {
        /// Columns of a row.
        cols: usize,
        /// Row by row.
        values: &'a [f32],
    },
    /// 8-bit blocks.
    Q8(Q8Rows<'a>),
}

/// Where a tile of a product goes: `out[t * stride + o]` for input row `t` and weight row `o`.
#[derive(Debug)]
pub struct OutTile<'a> {
    /// Starts at the tile's first element.
    pub values: &'a mut [f32],
    /// Elements from one input row's outputs to the next's.
    pub stride: usize,
}

/// The kernels of one weight format.
#[derive(Clone, Copy)]
pub struct MatKernels {
    /// The inputs are 8-bit blocks; otherwise f32.
    pub q8: bool,
    /// `out[t][o] = w[o] . x[t]` for `rows` weight rows, back to back in `w`, and every row of `x`.
    ///
    /// The value of an element depends on its weight row and input row alone, not on how many are computed together.
    pub mat: fn(out: OutTile<'_>, w: &[u8], rows: usize, x: Activations<'_>),
}

/// What [`Format::encode_by`] does, to the byte. Lengths are not checked: whole blocks without room are left out.
pub type Encode = fn(values: &[f32], importance: Option<&[f32]>, bytes: &mut [u8]);

/// Loops over f32 slices. Bit-identical in every table: 16 lanes, a fixed reduction tree, no contraction.
#[derive(Clone, Copy)]
pub struct F32Kernels {
    /// Sum of products.
    pub dot: fn(x: &[f32], y: &[f32]) -> f32,
    /// Sum of products with half-precision values.
    pub dot_f16: fn(x: &[f32], y: &[u16]) -> f32,
    /// `out += a * x`.
    pub axpy: fn(out: &mut [f32], a: f32, x: &[f32]),
    /// `out += a * x` with half-precision values.
    pub axpy_f16: fn(out: &mut [f32], a: f32, x: &[u16]),
    /// `out *= a`.
    pub scale: fn(out: &mut [f32], a: f32),
    /// Largest element, NaN left out; negative infinity when empty.
    pub max: fn(x: &[f32]) -> f32,
    /// `x = exp(x - max)`, returning the sum. Within 1 unit in the last place; NaN spreads to the sum.
    pub exp_sum: fn(x: &mut [f32], max: f32) -> f32,
    /// `out = x / sqrt(mean(x^2) + eps) * w`.
    pub rms_norm: fn(out: &mut [f32], x: &[f32], w: &[f32], eps: f32),
    /// `x = x / (1 + exp(-x))`.
    pub silu: fn(x: &mut [f32]),
    /// `gate = silu(gate) * up`, the same bits as `silu` and `mul` one after the other.
    pub swiglu: fn(gate: &mut [f32], up: &[f32]),
    /// `x = f(x)`.
    pub function: fn(x: &mut [f32], f: Function),
    /// `x += y`.
    pub add: fn(x: &mut [f32], y: &[f32]),
    /// `x *= y`.
    pub mul: fn(x: &mut [f32], y: &[f32]),
    /// A step of a head's recurrence: replaces the output and the state, `[K][V]`.
    pub scan: fn(out: &mut [f32], state: &mut [f32], row: Scan<'_>),
    /// A step of many heads of one value each, which share their key: replaces the outputs and the states, `[K][H]`.
    pub scan_keys: fn(out: &mut [f32], state: &mut [f32], row: KeyScan<'_>),
    /// Rounds to half precision, ties to even.
    pub to_f16: fn(out: &mut [u16], x: &[f32]),
    /// Rounds to 8-bit blocks, ties to even: the largest magnitude becomes the whole number of 120 to 127 that gives the
    /// least squared error.
    ///
    /// A block with NaN or an infinity gets a NaN scale, so that every product with it is NaN; one whose scale would be
    /// subnormal (magnitudes below 1.5e-36) becomes zero.
    pub quantize_q8: fn(out: Q8RowMut<'_>, x: &[f32]),
    /// The encoder of a format where it is faster than [`Format::encode_by`].
    pub encode: fn(Format) -> Option<Encode>,
}

/// What a processor can do at most with a table's instructions, for benchmarks to compare with.
#[derive(Clone, Copy)]
pub struct Probe {
    /// Read every byte, in two streams and in four: some processors are faster at the one, some at the other. Both return
    /// the sum of the little-endian words of 8 bytes and of the single bytes after the last of them, modulo 2^64.
    pub reads: [fn(bytes: &[u8]) -> u64; 2],
    /// Runs the table's best multiplication with addition for some rounds, on registers. Returns the number of operations:
    /// two for each multiplication with its addition.
    pub multiply: fn(rounds: u32) -> u64,
    /// What is multiplied: `bytes` or `bfloat16`.
    pub numbers: &'static str,
}

/// The kernels of one instruction set.
pub struct Kernels {
    /// `scalar`, `avx2`, ...: what `CANDOR_ISA` names.
    pub name: &'static str,
    /// Loops over floats.
    pub f32: F32Kernels,
    /// The kernels of a weight format; `None` where rows are to be decoded to f32 first.
    pub mat: fn(Format) -> Option<MatKernels>,
    /// The kernels of a cache format; `None` where the cache cannot have it. Every table has F32, F16, Q8_0 and Q4_0.
    pub attention: fn(Format) -> Option<AttentionKernels>,
    /// The limits of the machine.
    pub probe: Probe,
    /// The kernels of a weight format for many inputs at once; `None` where `mat` serves any number.
    pub batch: fn(Format) -> Option<BatchKernels>,
    /// The table of these instructions that rounds no input of a product and of attention: everything is f32. Itself, if it is one.
    pub exact: &'static Kernels,
}
