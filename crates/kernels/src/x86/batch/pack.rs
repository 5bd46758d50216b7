//! Inputs put into tiles: line = pair of columns as bfloat16, or a column as floats; dword = input.

use std::arch::x86_64::*;
use std::ops::Range;

use super::gate::gate;
use super::lines::{load_ps, round, round_twice, store};
use super::unpack::{BLOCK_ROWS, PANEL_LINES, STEP};
use super::{Form, TILE};
use crate::x86::avx512::transpose::transpose;
use crate::{Line, Packing};

/// How inputs of a form are packed.
pub fn packing(form: Form) -> &'static Packing {
    static BF16: Packing = new(Form::Bf16, |piece, x, cols, index| {
        // SAFETY: only a table leads here, and only a token of a processor that has these features to the table.
        unsafe { pack_bf16::<1>(piece, x, cols, index) }
    });
    static TWO_BF16: Packing = new(Form::TwoBf16, |piece, x, cols, index| {
        // SAFETY: as above.
        unsafe { pack_bf16::<2>(piece, x, cols, index) }
    });
    static F32: Packing = new(Form::F32, |piece, x, cols, index| {
        // SAFETY: as above.
        unsafe { pack_f32(piece, x, cols, index) }
    });
    match form {
        Form::Bf16 => &BF16,
        Form::TwoBf16 => &TWO_BF16,
        Form::F32 => &F32,
    }
}

const fn new(form: Form, pack: fn(&mut [Line], &[f32], usize, usize)) -> Packing {
    let (inputs, cols, gate) = (BLOCK_ROWS, form.panel_cols(), Some(gate(form)));
    Packing { form: form.packed(), inputs, cols, lines: PANEL_LINES, pack, gate }
}

/// Tiles of a piece with `inputs` inputs.
pub fn tiles(inputs: usize) -> usize {
    inputs.div_ceil(TILE).min(2)
}

/// What a piece is to hold.
struct Piece {
    /// Its first input.
    first: usize,
    /// Tiles of inputs: 1 or 2.
    tiles: usize,
    /// Its columns.
    cols: Range<usize>,
}

impl Piece {
    fn new(form: Form, piece: &[Line], x: &[f32], cols: usize, index: usize) -> Piece {
        assert!(cols > 0 && x.len().is_multiple_of(cols), "inputs: {} floats in rows of {cols}", x.len());
        assert_eq!(piece.len(), PANEL_LINES, "inputs: lines of a piece");
        let inputs = x.len() / cols;
        let blocks = inputs.div_ceil(BLOCK_ROWS);
        let (first, start) = (index % blocks * BLOCK_ROWS, index / blocks * form.panel_cols());
        Piece { first, tiles: tiles(inputs - first), cols: start..cols.min(start + form.panel_cols()) }
    }
}

/// Step by step, half by half: one or two tiles of 16 inputs. Inputs that there are not are zero.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
fn pack_bf16<const HALVES: usize>(piece: &mut [Line], x: &[f32], cols: usize, index: usize) {
    let form = if HALVES == 1 { Form::Bf16 } else { Form::TwoBf16 };
    let Piece { first, tiles, cols: Range { start, end } } = Piece::new(form, piece, x, cols, index);
    let inputs = x.len() / cols;
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

/// Step by step: one or two tiles of 16 inputs. Inputs that there are not are zero.
#[target_feature(enable = "avx512f,avx512bw")]
fn pack_f32(piece: &mut [Line], x: &[f32], cols: usize, index: usize) {
    let Piece { first, tiles, cols: Range { start, end } } = Piece::new(Form::F32, piece, x, cols, index);
    let inputs = x.len() / cols;
    let lines = piece.as_chunks_mut::<TILE>().0.chunks_exact_mut(tiles);
    for (step, lines) in (start..end).step_by(16).zip(lines) {
        for (tile, lines) in lines.iter_mut().enumerate() {
            let mut rows = [_mm512_setzero_si512(); TILE];
            for i in 0..TILE {
                let row = first + tile * TILE + i;
                if row >= inputs {
                    break;
                }
                let [columns, _] = step_of(&x[row * cols..][step..end.min(step + 16)]);
                rows[i] = _mm512_castps_si512(columns);
            }
            for (line, inputs) in lines.iter_mut().zip(transpose(rows)) {
                store(line, inputs);
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
    if let ([columns], []) = x.as_chunks() {
        return [load_ps(columns), _mm512_setzero_ps()];
    }
    let mut padded = [[0.0; 16]; 2];
    padded.as_flattened_mut()[..x.len()].copy_from_slice(x);
    [load_ps(&padded[0]), load_ps(&padded[1])]
}
