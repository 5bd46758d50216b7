//! Blocks of 32 with a half-precision scale.

use std::arch::x86_64::*;

use candor_quant::Format;

use super::{Step, Unpack};
use crate::x86::amx::lines::{half_at, round, store};
use crate::x86::avx2::registers::{load_128, load_256};

pub struct Q4_0;
pub struct Q8_0;

/// 0, 1, 2 ...
#[inline]
#[target_feature(enable = "avx512f")]
pub fn counting() -> __m512 {
    _mm512_setr_ps(0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0)
}

impl Unpack for Q4_0 {
    const FORMAT: Format = Format::Q4_0;

    /// Only 16 values are possible in a block: they are looked up.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,f16c")]
    unsafe fn unpack(columns: &[u8], panel: &mut [Step], r: usize) {
        let quants = _mm512_sub_ps(counting(), _mm512_set1_ps(8.0));
        for (block, step) in columns.as_chunks::<18>().0.iter().zip(panel) {
            let values = _mm512_mul_ps(quants, _mm512_set1_ps(half_at(block, 0)));
            // In both halves of the table, so that bit 4 of an index does not count; those above it never do.
            let table = round(values, values);
            let bytes = _mm256_cvtepu8_epi16(load_128(block, 2));
            let indices = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(bytes), _mm256_srli_epi16::<4>(bytes));
            store(&mut step[r], _mm512_permutexvar_epi16(indices, table));
        }
    }
}

impl Unpack for Q8_0 {
    const FORMAT: Format = Format::Q8_0;

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,f16c")]
    unsafe fn unpack(columns: &[u8], panel: &mut [Step], r: usize) {
        for (block, step) in columns.as_chunks::<34>().0.iter().zip(panel) {
            let scale = _mm512_set1_ps(half_at(block, 0));
            let quants = load_256(block, 2);
            let wide = |quants| _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(quants)), scale);
            let low = wide(_mm256_castsi256_si128(quants));
            let high = wide(_mm256_extracti128_si256::<1>(quants));
            store(&mut step[r], round(low, high));
        }
    }
}
