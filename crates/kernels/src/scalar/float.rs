//! Products of rows with f32 activations, which are taken as they are: of F32, F16 and BF16, and of blocks that are decoded.

use candor_quant::{Format, blocks::Decode, half};

use crate::order::{LANES, tree};
use crate::shape::float_rows;
use crate::{Activations, OutTile};

/// Columns of a row that are widened at a time: whole blocks of any format.
pub const CHUNK: usize = 256;

pub struct F32;
pub struct F16;
pub struct Bf16;

macro_rules! number {
    ($name:ident, $bytes:literal => $widen:expr) => {
        impl Decode for $name {
            const FORMAT: Format = Format::$name;

            #[inline(always)]
            fn decode(bytes: &[u8], out: &mut [f32]) {
                for (out, number) in out.iter_mut().zip(bytes.as_chunks::<$bytes>().0) {
                    *out = $widen(*number);
                }
            }
        }
    };
}

number!(F32, 4 => f32::from_le_bytes);
number!(F16, 2 => |number| half::f16_to_f32(u16::from_le_bytes(number)));
number!(Bf16, 2 => |number| half::bf16_to_f32(u16::from_le_bytes(number)));

/// `out[t][o] = w[o] . x[t]`.
pub fn mat<D: Decode>(out: OutTile<'_>, w: &[u8], rows: usize, x: Activations<'_>) {
    let (x, cols, inputs, row_bytes) = float_rows(&out, D::FORMAT, w, rows, x);
    let mut wide = [0.0; CHUNK];
    for o in 0..rows {
        let row = &w[o * row_bytes..][..row_bytes];
        for t in 0..inputs {
            out.values[t * out.stride + o] = 0.0;
        }
        let chunks = row.chunks(CHUNK / D::FORMAT.block_len() * D::FORMAT.block_bytes());
        for (start, bytes) in (0..cols).step_by(CHUNK).zip(chunks) {
            let wide = &mut wide[..(cols - start).min(CHUNK)];
            D::decode(bytes, wide);
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
