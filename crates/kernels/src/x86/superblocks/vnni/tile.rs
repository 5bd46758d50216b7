//! Sixteen weight rows times some inputs over one superblock: sums in registers, lane = weight row.

use crate::array::Each;
use crate::unroll::unroll;
use std::arch::asm;
use std::arch::x86_64::*;

use super::input::Input;
use super::panel::{Panel, Superblock};
use crate::Line;
use crate::x86::batch::lines::{load, store};
use crate::x86::superblocks::Sums;

/// The most inputs of a tile: 12 sums of products and 6 of superblocks leave registers for what is multiplied.
pub const INPUTS: usize = 6;

/// Adds the products of a superblock of sixteen rows with `T` inputs to `sums`, a line for each input.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
pub fn tile<S: Superblock, const T: usize>(panel: &Panel, x: &[Input; T], sums: &mut [Line; T]) {
    let mut totals = [_mm512_setzero_ps(); T];
    for pair in 0..4 {
        // Of each input: both sides of the panel.
        let mut products = [[_mm512_setzero_si512(); 2]; T];
        let mut first_halves = [_mm512_setzero_si512(); T];
        unroll!(STEP, {
            if const { STEP == 4 && !matches!(S::SUMS, Sums::Blocks) } {
                for t in 0..T {
                    first_halves[t] = keep(words(products[t]));
                    products[t] = [_mm512_setzero_si512(); 2];
                }
            }
            if const { STEP.is_multiple_of(4) && matches!(S::SUMS, Sums::CentredHalves) } {
                for t in 0..T {
                    products[t] = [two(x[t].offsets[STEP / 4][pair]); 2];
                }
            }
            let columns = lines(&panel.quants[pair][STEP]);
            for t in 0..T {
                let x = eight(x[t].quants[STEP][pair]);
                for side in 0..2 {
                    products[t][side] = keep(_mm512_dpbusd_epi32(products[t][side], columns[side], x));
                }
            }
        });
        let scales = lines(&panel.factors[pair]);
        for t in 0..T {
            let factors = both(x[t].factors[pair]);
            let first = _mm512_mullo_epi16(scales[0], factors);
            if S::SUMS != Sums::Blocks {
                let sum = _mm512_madd_epi16(first_halves[t], first);
                totals[t] = _mm512_add_ps(totals[t], _mm512_cvtepi32_ps(sum));
            }
            let last = match S::SUMS {
                Sums::CentredHalves => _mm512_mullo_epi16(scales[1], factors),
                _ => first,
            };
            let sum = _mm512_madd_epi16(words(products[t]), last);
            totals[t] = _mm512_add_ps(totals[t], _mm512_cvtepi32_ps(sum));
        }
    }
    for t in 0..T {
        let mut total = _mm512_mul_ps(totals[t], _mm512_castsi512_ps(load(&panel.scales)));
        if S::SUMS != Sums::CentredHalves {
            let mut minima = _mm512_setzero_si512();
            for pair in 0..4 {
                minima = _mm512_dpwssd_epi32(minima, load(&panel.minima[pair]), both(x[t].scaled_sums[pair]));
            }
            let scales = _mm512_castsi512_ps(load(&panel.minimum_scales));
            total = _mm512_fmadd_ps(_mm512_cvtepi32_ps(minima), scales, total);
        }
        let sum = _mm512_castsi512_ps(load(&sums[t]));
        let sum = _mm512_fmadd_ps(total, _mm512_set1_ps(x[t].scale), sum);
        store(&mut sums[t], _mm512_castps_si512(sum));
    }
}

/// The sums of products of both blocks of a pair as words, which they fit, lane = row.
///
/// On Zen 4 packing is free beside multiplications, but rotations take their ports, and so in part do choices of three operands.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn words([first, last]: [__m512i; 2]) -> __m512i {
    _mm512_packs_epi32(first, last)
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn lines([first, last]: &[Line; 2]) -> [__m512i; 2] {
    [load(first), load(last)]
}

/// Eight quants in every lane of 64 bits.
#[inline]
#[target_feature(enable = "avx512f")]
fn eight(quants: [i8; 8]) -> __m512i {
    _mm512_set1_epi64(i64::from_le_bytes(quants.each(|quant| quant as u8)))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn two([a, b]: [i32; 2]) -> __m512i {
    _mm512_set1_epi64(i64::from(a as u32) | i64::from(b) << 32)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn both([a, b]: [i16; 2]) -> __m512i {
    _mm512_set1_epi32(i32::from(a as u16) | i32::from(b) << 16)
}

/// The value itself. Hides from the compiler that it is a sum: it would regroup the sums of a tile, input by input, wait for
/// each, and spill the weights.
#[inline]
#[target_feature(enable = "avx512f")]
fn keep(mut register: __m512i) -> __m512i {
    // SAFETY: no instruction is emitted.
    unsafe { asm!("/* {0} */", inout(zmm_reg) register, options(nomem, nostack, preserves_flags)) };
    register
}
