//! Blocks of 64 that have a scale for 16 columns each.

use std::arch::x86_64::*;

use candor_quant::Format;

use super::legacy::uneven;
use super::{Step, Unpack};
use crate::weights::{E4M3_UNIT, FP4_VALUES, half_e4m3};
use crate::x86::avx2::registers::load_128;
use crate::x86::batch::lines::{round, store};

pub struct Nvfp4;

impl Unpack for Nvfp4 {
    const FORMAT: Format = Format::Nvfp4;

    /// A table has the 16 values of two groups: 32 columns.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,f16c")]
    unsafe fn unpack(columns: &[u8], panel: &mut [Step], r: usize) {
        // Of each group the low nibbles, then the high ones.
        let twice = _mm512_setr_epi64(0, 1, 0, 1, 2, 3, 2, 3);
        let four = 0x0004_0004_0004_0004;
        let shifts = _mm512_setr_epi64(0, 0, four, four, 0, 0, four, four);
        let second = _mm512_maskz_set1_epi16(0xffff_0000, 16);
        for (block, steps) in columns.as_chunks::<36>().0.iter().zip(panel.as_chunks_mut::<2>().0) {
            for (half, step) in steps.iter_mut().enumerate() {
                let values = |group: usize| {
                    let scale = half_e4m3(block[2 * half + group]) as f32 * E4M3_UNIT;
                    _mm512_mul_ps(uneven(FP4_VALUES), _mm512_set1_ps(scale))
                };
                let bytes = _mm256_cvtepu8_epi16(load_128(block, 4 + 16 * half));
                let nibbles = _mm512_permutexvar_epi64(twice, _mm512_castsi256_si512(bytes));
                let nibbles = _mm512_and_si512(_mm512_srlv_epi16(nibbles, shifts), _mm512_set1_epi16(15));
                let table = round(values(0), values(1));
                store(&mut step[r], _mm512_permutexvar_epi16(_mm512_or_si512(nibbles, second), table));
            }
        }
    }
}
