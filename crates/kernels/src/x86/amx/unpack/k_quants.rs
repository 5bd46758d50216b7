//! Blocks of 256: Q4_K, Q5_K, Q6_K and IQ4_XS, with the values that `candor_quant` decodes, rounded.

use std::arch::x86_64::*;

use candor_quant::Format;

use super::legacy::{counting, counting_on, indices, table, uneven};
use super::{Step, Unpack};
use crate::x86::amx::lines::{half_at, round, store, store_ps};
use crate::x86::avx2::registers::{load_128, load_256};

pub struct Q4K;
pub struct Q5K;
pub struct Q6K;
pub struct Iq4Xs;

/// Scales, then minima, of the eight groups of a Q4_K or Q5_K block.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,f16c")]
fn factors<const N: usize>(block: &[u8; N]) -> [f32; 16] {
    // Dwords: d and dmin, then the packed bytes 0..4, 4..8 and 8..12.
    let header = load_128(block, 0);
    let low = _mm_srlv_epi32(_mm_shuffle_epi32::<0b11_10_11_01>(header), _mm_setr_epi32(0, 0, 0, 4));
    let six = 0x3f3f_3f3f;
    let four = 0x0f0f_0f0f;
    let low = _mm_and_si128(low, _mm_setr_epi32(six, four, six, four));
    // The upper two bits of groups 4..8 are on top of groups 0..4.
    let top = _mm_srli_epi32::<2>(_mm_shuffle_epi32::<0b10_10_01_01>(header));
    let top = _mm_and_si128(top, _mm_setr_epi32(0, 0x3030_3030, 0, 0x3030_3030));
    let numbers = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_or_si128(low, top)));
    let [d, dmin] = [_mm256_set1_ps(half_at(block, 0)), _mm256_set1_ps(half_at(block, 2))];
    let mut factors = [0.0; 16];
    store_ps(&mut factors, _mm512_mul_ps(numbers, _mm512_insertf32x8::<1>(_mm512_castps256_ps512(d), dmin)));
    factors
}

impl Unpack for Q4K {
    const FORMAT: Format = Format::Q4K;

    /// Only 16 values are possible in a group: they are looked up.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,f16c")]
    unsafe fn unpack(columns: &[u8], panel: &mut [Step], r: usize) {
        for (block, steps) in columns.as_chunks::<144>().0.iter().zip(panel.as_chunks_mut::<8>().0) {
            let factors = factors(block);
            let table = |group: usize| {
                let (scale, minimum) = (_mm512_set1_ps(factors[group]), _mm512_set1_ps(factors[8 + group]));
                table(_mm512_fmsub_ps(counting(), scale, minimum))
            };
            for pair in 0..4 {
                let bytes = _mm512_cvtepu8_epi16(load_256(block, 16 + 32 * pair));
                let (even, odd) = (table(2 * pair), table(2 * pair + 1));
                store(&mut steps[2 * pair][r], _mm512_permutexvar_epi16(bytes, even));
                store(&mut steps[2 * pair + 1][r], _mm512_permutexvar_epi16(_mm512_srli_epi16::<4>(bytes), odd));
            }
        }
    }
}

impl Unpack for Q5K {
    const FORMAT: Format = Format::Q5K;

    /// 32 values are possible in a group, as many as a table has.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,f16c")]
    unsafe fn unpack(columns: &[u8], panel: &mut [Step], r: usize) {
        let nibble = _mm512_set1_epi16(15);
        for (block, steps) in columns.as_chunks::<176>().0.iter().zip(panel.as_chunks_mut::<8>().0) {
            let factors = factors(block);
            let table = |group: usize| {
                let (scale, minimum) = (_mm512_set1_ps(factors[group]), _mm512_set1_ps(factors[8 + group]));
                let low = _mm512_fmsub_ps(counting(), scale, minimum);
                round(low, _mm512_fmsub_ps(counting_on(), scale, minimum))
            };
            // The fifth bit of group g is bit g: it is moved to bit 4, whatever comes to lie above it.
            let mut fifth = _mm512_slli_epi16::<4>(_mm512_cvtepu8_epi16(load_256(block, 16)));
            for pair in 0..4 {
                let bytes = _mm512_cvtepu8_epi16(load_256(block, 48 + 32 * pair));
                for (side, quants) in [bytes, _mm512_srli_epi16::<4>(bytes)].into_iter().enumerate() {
                    // nibble ? quants : fifth
                    let indices = _mm512_ternarylogic_epi32::<0xca>(nibble, quants, fifth);
                    let values = _mm512_permutexvar_epi16(indices, table(2 * pair + side));
                    store(&mut steps[2 * pair + side][r], values);
                    fifth = _mm512_srli_epi16::<1>(fifth);
                }
            }
        }
    }
}

impl Unpack for Q6K {
    const FORMAT: Format = Format::Q6K;

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,f16c")]
    unsafe fn unpack(columns: &[u8], panel: &mut [Step], r: usize) {
        for (block, steps) in columns.as_chunks::<210>().0.iter().zip(panel.as_chunks_mut::<8>().0) {
            let numbers = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(load_128(block, 192)));
            let mut scales = [0.0; 16];
            store_ps(&mut scales, _mm512_mul_ps(numbers, _mm512_set1_ps(half_at(block, 208))));
            for half in 0..2 {
                // Runs 0 and 1 are low nibbles, runs 2 and 3 high ones; run k has its upper bits at bit 2 k.
                let (a, b) = (load_256(block, 64 * half), load_256(block, 64 * half + 32));
                let nibbles = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(a), b);
                let upper = _mm512_broadcast_i64x4(load_256(block, 128 + 32 * half));
                let shift = |first: i64, second: i64| {
                    _mm512_setr_epi64(first, first, first, first, second, second, second, second)
                };
                let quants = |low, upper| {
                    let low = _mm512_and_si512(low, _mm512_set1_epi8(0x0f));
                    let both = _mm512_or_si512(low, _mm512_and_si512(upper, _mm512_set1_epi8(0x30)));
                    _mm512_sub_epi8(both, _mm512_set1_epi8(32))
                };
                let runs = [
                    quants(nibbles, _mm512_sllv_epi64(upper, shift(4, 2))),
                    quants(_mm512_srli_epi16::<4>(nibbles), _mm512_srlv_epi64(upper, shift(0, 2))),
                ];
                for (two, quants) in runs.into_iter().enumerate() {
                    let group = 8 * half + 4 * two;
                    let wide = |sixteen, group: usize| {
                        let numbers = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(sixteen));
                        _mm512_mul_ps(numbers, _mm512_set1_ps(scales[group]))
                    };
                    let first = wide(_mm512_castsi512_si128(quants), group);
                    let second = wide(_mm512_extracti32x4_epi32::<1>(quants), group + 1);
                    store(&mut steps[4 * half + 2 * two][r], round(first, second));
                    let first = wide(_mm512_extracti32x4_epi32::<2>(quants), group + 2);
                    let second = wide(_mm512_extracti32x4_epi32::<3>(quants), group + 3);
                    store(&mut steps[4 * half + 2 * two + 1][r], round(first, second));
                }
            }
        }
    }
}

impl Unpack for Iq4Xs {
    const FORMAT: Format = Format::Iq4Xs;

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,f16c")]
    unsafe fn unpack(columns: &[u8], panel: &mut [Step], r: usize) {
        for (block, steps) in columns.as_chunks::<136>().0.iter().zip(panel.as_chunks_mut::<8>().0) {
            let d = half_at(block, 0);
            let high = u16::from_le_bytes([block[2], block[3]]);
            for (group, step) in steps.iter_mut().enumerate() {
                let low = block[4 + group / 2] >> (4 * (group % 2)) & 15;
                let scale = i32::from(low) | i32::from(high >> (2 * group) & 3) << 4;
                let values = _mm512_mul_ps(uneven(), _mm512_set1_ps(d * (scale - 32) as f32));
                store(&mut step[r], _mm512_permutexvar_epi16(indices(block, 8 + 16 * group), table(values)));
            }
        }
    }
}
