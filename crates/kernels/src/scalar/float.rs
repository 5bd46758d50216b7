//! Products of F32, F16 and BF16 rows with f32 activations, which are taken as they are.

use candor_quant::{Format, half};

use crate::order::{LANES, tree};
use crate::shape::float_rows;
use crate::{Activations, OutTile};

/// Columns of a row that are widened at a time.
const CHUNK: usize = 256;

/// A format of plain numbers.
pub trait Number {
    const FORMAT: Format;

    /// The number in `FORMAT.block_bytes()` bytes.
    fn widen(bytes: &[u8]) -> f32;
}

pub struct F32;
pub struct F16;
pub struct Bf16;

impl Number for F32 {
    const FORMAT: Format = Format::F32;

    #[inline(always)]
    fn widen(bytes: &[u8]) -> f32 {
        f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    }
}

impl Number for F16 {
    const FORMAT: Format = Format::F16;

    #[inline(always)]
    fn widen(bytes: &[u8]) -> f32 {
        half::f16_to_f32(u16::from_le_bytes([bytes[0], bytes[1]]))
    }
}

impl Number for Bf16 {
    const FORMAT: Format = Format::Bf16;

    #[inline(always)]
    fn widen(bytes: &[u8]) -> f32 {
        half::bf16_to_f32(u16::from_le_bytes([bytes[0], bytes[1]]))
    }
}

/// `out[t][o] = w[o] . x[t]`.
pub fn mat<N: Number>(out: OutTile<'_>, w: &[u8], rows: usize, x: Activations<'_>) {
    let (x, cols, inputs, row_bytes) = float_rows(&out, N::FORMAT, w, rows, x);
    let bytes = N::FORMAT.block_bytes();
    let mut wide = [0.0; CHUNK];
    for o in 0..rows {
        let row = &w[o * row_bytes..][..row_bytes];
        for t in 0..inputs {
            out.values[t * out.stride + o] = 0.0;
        }
        for start in (0..cols).step_by(CHUNK) {
            let wide = &mut wide[..(cols - start).min(CHUNK)];
            for (wide, number) in wide.iter_mut().zip(row[start * bytes..].chunks_exact(bytes)) {
                *wide = N::widen(number);
            }
            for t in 0..inputs {
                out.values[t * out.stride + o] += chunk(wide, &x[t * cols + start..][..wide.len()]);
            }
        }
    }
}

fn chunk(w: &[f32], x: &[f32]) -> f32 {
    let mut lanes = [0.0; LANES];
    let ((w, w_rest), (x, x_rest)) = (w.as_chunks::<LANES>(), x.as_chunks::<LANES>());
    for (w, x) in w.iter().zip(x) {
        for i in 0..LANES {
            lanes[i] += w[i] * x[i];
        }
    }
    for (i, (w, x)) in w_rest.iter().zip(x_rest).enumerate() {
        lanes[i] += w * x;
    }
    tree(lanes)
}
