//! Sixteen weight rows times some inputs over one superblock: sums in registers, lane = weight row.

use std::arch::x86_64::*;

use super::input::Input;
use super::pairs::Pairs;
use super::panel::{Panel, Superblock};
use crate::Line;
use crate::x86::avx2::panel::pair;
use crate::x86::avx2::registers::{load_256, load_ps};
use crate::x86::superblocks::Sums;

/// Adds the products of a superblock of sixteen rows with `T` inputs to `sums`, a line for each input.
#[inline(never)]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn tile<M: Pairs, S: Superblock, const T: usize>(panel: &Panel, x: &[Input; T], sums: &mut [Line; T]) {
    let mut totals = [[_mm256_setzero_ps(); 2]; T];
    let halves = if S::SUMS == Sums::Blocks { 1 } else { 2 };
    for p in 0..4 {
        for half in 0..halves {
            let mut words = [[_mm256_setzero_si256(); 2]; T];
            if S::SUMS == Sums::CentredHalves {
                for t in 0..T {
                    words[t] = [pair(x[t].offsets[half][p]); 2];
                }
            }
            // SAFETY: only a table leads here, whose token says that the processor has the products.
            let words = unsafe { M::sums::<S, T>(words, panel, x, (p, half)) };
            let own = if S::SUMS == Sums::CentredHalves { half } else { 0 };
            for side in 0..2 {
                let scales = load_256(&panel.factors[p][own][side], 0);
                for t in 0..T {
                    let factors = _mm256_mullo_epi16(scales, pair(x[t].factors[p]));
                    let sum = _mm256_madd_epi16(words[t][side], factors);
                    totals[t][side] = _mm256_add_ps(totals[t][side], _mm256_cvtepi32_ps(sum));
                }
            }
        }
    }
    for t in 0..T {
        for (side, sum) in sums[t].0.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let mut total = _mm256_mul_ps(totals[t][side], load_ps(&panel.scales[side]));
            if S::SUMS != Sums::CentredHalves {
                let mut minima = _mm256_setzero_si256();
                for p in 0..4 {
                    let both = _mm256_madd_epi16(load_256(&panel.minima[p][side], 0), pair(x[t].scaled_sums[p]));
                    minima = _mm256_add_epi32(minima, both);
                }
                let scales = load_ps(&panel.minimum_scales[side]);
                total = _mm256_fmadd_ps(_mm256_cvtepi32_ps(minima), scales, total);
            }
            let before = _mm256_castsi256_ps(load_u32(sum));
            store_u32(sum, _mm256_fmadd_ps(total, _mm256_set1_ps(x[t].scale), before));
        }
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn load_u32(values: &[u32; 8]) -> __m256i {
    // SAFETY: `values` is 32 readable bytes, and the instruction takes any alignment.
    unsafe { _mm256_loadu_si256(values.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store_u32(values: &mut [u32; 8], register: __m256) {
    // SAFETY: `values` is 32 writable bytes, and the instruction takes any alignment.
    unsafe { _mm256_storeu_si256(values.as_mut_ptr().cast(), _mm256_castps_si256(register)) }
}
