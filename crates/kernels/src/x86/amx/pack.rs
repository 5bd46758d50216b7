//! Inputs rounded to bfloat16 and put into tiles: line = pair of columns, dword = input.

use std::arch::x86_64::*;

use super::lines::{load_ps, round, round_twice, store};
use super::tiles::TILE;
use super::unpack::{BLOCK_ROWS, Halves, PANEL_LINES, STEP};
use crate::x86::avx512::transpose::transpose;
use crate::{Form, Line, Packing};

/// For weights that are rounded to bfloat16.
pub static ONE: Packing = packing(Form::Bf16, Halves::One, |piece, x, cols, index| {
    // SAFETY: only the table leads here, and only an `Amx` to the table: the processor has these features.
    unsafe { pack::<1>(piece, x, cols, index) }
});

/// For weights that are the sum of two bfloat16.
pub static TWO: Packing = packing(Form::TwoBf16, Halves::Two, |piece, x, cols, index| {
    // SAFETY: as above.
    unsafe { pack::<2>(piece, x, cols, index) }
});

const fn packing(form: Form, halves: Halves, pack: fn(&mut [Line], &[f32], usize, usize)) -> Packing {
    Packing { form, inputs: BLOCK_ROWS, cols: halves.panel_cols(), lines: PANEL_LINES, pack }
}

/// Tiles of a piece with so many inputs.
pub fn tiles(inputs: usize) -> usize {
    inputs.div_ceil(TILE).min(2)
}

/// Step by step, half by half: one or two tiles of 16 inputs. Inputs that there are not are zero.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
fn pack<const HALVES: usize>(piece: &mut [Line], x: &[f32], cols: usize, index: usize) {
    assert!(cols > 0 && x.len().is_multiple_of(cols), "inputs: {} floats in rows of {cols}", x.len());
    assert_eq!(piece.len(), PANEL_LINES, "inputs: lines of a piece");
    let inputs = x.len() / cols;
    let panel_cols = PANEL_LINES / BLOCK_ROWS * STEP / HALVES;
    let blocks = inputs.div_ceil(BLOCK_ROWS);
    let (first, start) = (index % blocks * BLOCK_ROWS, index / blocks * panel_cols);
    let tiles = tiles(inputs - first);
    let end = cols.min(start + panel_cols);
    let lines = piece.as_chunks_mut::<TILE>().0.chunks_exact_mut(HALVES * tiles);
    for (step, lines) in (start..end).step_by(STEP).zip(lines) {
        for tile in 0..tiles {
            let mut rows = [[_mm512_setzero_si512(); TILE]; HALVES];
            for i in 0..TILE {
                let row = first + tile * TILE + i;
                if row >= inputs {
                    break;
                }
                let [low, high] = step_of(&x[row * cols..][step..end.min(step + STEP)]);
                if HALVES == 1 {
                    rows[0][i] = round(low, high);
                } else {
                    [rows[0][i], rows[HALVES - 1][i]] = round_twice(low, high);
                }
            }
            for (half, rows) in rows.into_iter().enumerate() {
                let pairs = transpose(rows);
                for (line, pair) in lines[half * tiles + tile].iter_mut().zip(pairs) {
                    store(line, pair);
                }
            }
        }
    }
}

/// Up to 32 columns, then zeros.
#[inline]
#[target_feature(enable = "avx512f")]
pub fn step_of(x: &[f32]) -> [__m512; 2] {
    if let [low, high] = x.as_chunks().0 {
        return [load_ps(low), load_ps(high)];
    }
    let mut padded = [[0.0; 16]; 2];
    padded.as_flattened_mut()[..x.len()].copy_from_slice(x);
    [load_ps(&padded[0]), load_ps(&padded[1])]
}
