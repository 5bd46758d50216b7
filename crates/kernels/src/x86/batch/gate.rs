//! Inputs made of sums: those of a gate and of what it lets through, on their way from one product into another's tiles. A line of sums is
//! a column of the next inputs, so that nothing is turned around.

use std::arch::x86_64::*;

use super::lines::{load, round, round_twice, store};
use super::{Form, TILE};
use crate::array;
use crate::x86::avx512::exp::gate_registers;
use crate::{Line, Sums};

/// Columns that go side by side.
const FOUR: usize = 4;

/// What fills a block of a form.
pub const fn gate(form: Form) -> fn(&mut [Line], &Sums, &Sums, usize) {
    match form {
        Form::Bf16 => |block, gate, up, rows| {
            // SAFETY: only a table leads here, and only a token of a processor that has these features to the table.
            unsafe { to_bf16::<1>(block, gate, up, rows) }
        },
        Form::TwoBf16 => |block, gate, up, rows| {
            // SAFETY: as above.
            unsafe { to_bf16::<2>(block, gate, up, rows) }
        },
        Form::F32 => |block, gate, up, rows| {
            // SAFETY: as above.
            unsafe { to_f32(block, gate, up, rows) }
        },
    }
}

/// Half by half: one or two tiles of 16 inputs, a line for each pair of columns.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
fn to_bf16<const HALVES: usize>(block: &mut [Line], gate: &Sums, up: &Sums, rows: usize) {
    let tiles = block.len() / (HALVES * TILE);
    assert!((tiles == 1 || tiles == 2) && block.len() == HALVES * tiles * TILE, "{} lines of a block", block.len());
    let words: [i16; 32] = array::of(|i| (i / 2 + i % 2 * 16) as i16);
    // SAFETY: both are 64 bytes of plain numbers.
    let pairs = unsafe { std::mem::transmute::<[i16; 32], __m512i>(words) };
    let block = block.as_chunks_mut::<TILE>().0;
    for side in 0..tiles {
        for first in (0..2 * TILE).step_by(FOUR) {
            let four = columns(gate, up, (first, side), rows);
            for (pair, two) in four.as_chunks::<2>().0.iter().enumerate() {
                let line = first / 2 + pair;
                let [low, high] = *two;
                let halves = if HALVES == 1 { [round(low, high); 2] } else { round_twice(low, high) };
                for half in 0..HALVES {
                    let interleaved = _mm512_permutexvar_epi16(pairs, halves[half]);
                    store(&mut block[half * tiles + side][line], interleaved);
                }
            }
        }
    }
}

/// Two steps of 16 columns: one or two tiles of 16 inputs, a line for each column.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
fn to_f32(block: &mut [Line], gate: &Sums, up: &Sums, rows: usize) {
    let tiles = block.len() / (2 * TILE);
    assert!((tiles == 1 || tiles == 2) && block.len() == 2 * tiles * TILE, "{} lines of a block", block.len());
    let block = block.as_chunks_mut::<TILE>().0;
    for side in 0..tiles {
        for first in (0..2 * TILE).step_by(FOUR) {
            for (i, column) in columns(gate, up, (first, side), rows).into_iter().enumerate() {
                store(&mut block[first / TILE * tiles + side][first % TILE + i], _mm512_castps_si512(column));
            }
        }
    }
}

/// Some columns of 16 inputs: gated, or zero where there are no more `rows` of sums.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
fn columns(gate: &Sums, up: &Sums, (first, side): (usize, usize), rows: usize) -> [__m512; FOUR] {
    let start = (first / TILE * 2 + side) * TILE + first % TILE;
    let (mut gates, mut ups) = ([_mm512_setzero_ps(); FOUR], [_mm512_setzero_ps(); FOUR]);
    for i in 0..FOUR {
        if first + i < rows {
            gates[i] = _mm512_castsi512_ps(load(&gate[start + i]));
            ups[i] = _mm512_castsi512_ps(load(&up[start + i]));
        }
    }
    gate_registers(gates, ups)
}
