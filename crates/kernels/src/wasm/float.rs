//! Products of rows with f32 activations, which are taken as they are: of F32, F16 and BF16, and of blocks. All are decoded,
//! some rows and columns at a time.
//!
//! Order of summation: that of the scalar table. Lane = column.

use std::arch::wasm32::*;

use candor_quant::{Format, blocks::Decode};

use super::fold::tree;
use super::format::Eight;
use super::registers::{load, store, widen_halves};
use crate::array::Each;
use crate::kind::padded;
use crate::scalar::float::CHUNK;
use crate::shape::float_rows;
use crate::{Activations, OutTile};

/// Weight rows that are decoded together. With [`INPUTS`] they have 12 registers of sums.
const ROWS: usize = 3;
/// Inputs of a tile.
const INPUTS: usize = 2;

pub enum F16 {}
pub enum Bf16 {}

/// Implements a format of two bytes from what makes floats of four of its numbers, the low halves of lanes.
macro_rules! halves {
    ($name:ident, $widen:expr) => {
        impl Decode for $name {
            const FORMAT: Format = Format::$name;

            #[inline(always)]
            fn decode(bytes: &[u8], out: &mut [f32]) {
                let ((whole, rest), (out, out_rest)) = (bytes.as_chunks::<16>(), out.as_chunks_mut::<8>());
                let eight = |bytes: &[u8; 16], out: &mut [f32; 8]| {
                    let halves = load(bytes, 0);
                    store(out, 0, $widen(i32x4_extend_low_i16x8(halves)));
                    store(out, 4, $widen(i32x4_extend_high_i16x8(halves)));
                };
                whole.iter().zip(out).for_each(|(bytes, out)| eight(bytes, out));
                let mut end = [0.0; 8];
                eight(&padded(rest), &mut end);
                out_rest.copy_from_slice(&end[..out_rest.len()]);
            }
        }
    };
}

halves!(F16, widen_halves);
halves!(Bf16, |halves| i32x4_shl(halves, 16));

/// `out[t][o] = w[o] . x[t]`.
pub fn mat<D: Decode>(out: OutTile<'_>, w: &[u8], rows: usize, x: Activations<'_>) {
    let (x, cols, inputs, row_bytes) = float_rows(&out, D::FORMAT, w, rows, x);
    if rows == 0 {
        return;
    }
    let chunk_bytes = CHUNK / D::FORMAT.block_len() * D::FORMAT.block_bytes();
    let mut wide = [[0.0; CHUNK]; ROWS];
    for t in 0..inputs {
        out.values[t * out.stride..][..rows].fill(0.0);
    }
    for (strip, w) in w.chunks(ROWS * row_bytes).enumerate() {
        for (chunk, start) in (0..cols).step_by(CHUNK).enumerate() {
            let columns = (cols - start).min(CHUNK);
            for (wide, row) in wide.iter_mut().zip(w.chunks_exact(row_bytes)) {
                let bytes = &row[chunk * chunk_bytes..];
                D::decode(&bytes[..bytes.len().min(chunk_bytes)], &mut wide[..columns]);
            }
            for (t, x) in x.chunks(INPUTS * cols).enumerate() {
                let mut of_inputs = x.chunks_exact(cols).map(|x| &x[start..][..columns]);
                let mut add = |i: usize, sums: [f32; ROWS]| {
                    let out = &mut out.values[(t * INPUTS + i) * out.stride + strip * ROWS..];
                    out.iter_mut().zip(sums).take(w.len() / row_bytes).for_each(|(out, sum)| *out += sum);
                };
                match (of_inputs.next(), of_inputs.next()) {
                    (Some(a), Some(b)) => {
                        let [a, b] = tile(&wide, [a, b]);
                        add(0, a);
                        add(1, b);
                    }
                    (Some(a), None) => add(0, tile(&wide, [a])[0]),
                    _ => {}
                }
            }
        }
    }
}

/// Sums of a chunk, `[input][row]`.
#[inline(always)]
fn tile<const T: usize>(w: &[[f32; CHUNK]; ROWS], x: [&[f32]; T]) -> [[f32; ROWS]; T] {
    let mut lanes = [[[f32x4_splat(0.0); 2]; ROWS]; T];
    let (w, x) = (w.each_ref().each(|w| w.as_chunks::<8>().0), x.each(|x| x.as_chunks::<8>()));
    let whole = x[0].0.len();
    let x_whole = x.each(|x| &x.0[..whole]);
    for i in 0..whole.min(CHUNK / 8) {
        add(&mut lanes, w.each(|w| &w[i]), x_whole.each(|x| &x[i]));
    }
    if !x[0].1.is_empty() {
        let rest = x[0].1.len();
        let w: [[f32; 8]; ROWS] = w.each(|w| padded(&w[whole][..rest]));
        let x: [[f32; 8]; T] = x.each(|x| padded(x.1));
        add(&mut lanes, w.each_ref(), x.each_ref());
    }
    lanes.each(|lanes| lanes.each(tree))
}

/// Eight columns of all rows times those of every input.
#[inline(always)]
fn add<const T: usize>(lanes: &mut [[Eight; ROWS]; T], w: [&[f32; 8]; ROWS], x: [&[f32; 8]; T]) {
    for half in 0..2 {
        let w = w.each(|w| load(w, half * 4));
        for t in 0..T {
            let x = load(x[t], half * 4);
            for r in 0..ROWS {
                lanes[t][r][half] = f32x4_add(lanes[t][r][half], f32x4_mul(w[r], x));
            }
        }
    }
}
