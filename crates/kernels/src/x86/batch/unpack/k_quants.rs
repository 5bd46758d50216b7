//! Blocks of 256: the K-quants and IQ4_XS, with the values that `candor_quant` decodes, rounded.

use std::arch::x86_64::*;

use candor_quant::Format;

use super::legacy::{counting, counting_on, indices, scaled, table, uneven};
use super::{Step, Unpack};
use crate::array::Each;
use crate::weights::IQ4_VALUES;
use crate::x86::avx2::registers::{load_128, load_256};
use crate::x86::batch::lines::{half_at, round, store, store_ps};

pub struct Q2K;
pub struct Q3K;
pub struct Q4K;
pub struct Q5K;
pub struct Q6K;
pub struct Iq4Xs;

/// Scales, then minima, of the eight groups of a Q4_K or Q5_K block.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,f16c")]
pub fn factors<const N: usize>(block: &[u8; N]) -> [f32; 16] {
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
    let dmin = _mm512_castps512_ps256(half_at(block, 2));
    let mut factors = [0.0; 16];
    store_ps(&mut factors, _mm512_mul_ps(numbers, _mm512_insertf32x8::<1>(half_at(block, 0), dmin)));
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
            store_ps(&mut scales, _mm512_mul_ps(numbers, half_at(block, 208)));
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
                    let scale = |i: usize| _mm512_set1_ps(scales[8 * half + 4 * two + i]);
                    let first = scaled(_mm512_castsi512_si128(quants), scale(0));
                    let second = scaled(_mm512_extracti32x4_epi32::<1>(quants), scale(1));
                    store(&mut steps[4 * half + 2 * two][r], round(first, second));
                    let first = scaled(_mm512_extracti32x4_epi32::<2>(quants), scale(2));
                    let second = scaled(_mm512_extracti32x4_epi32::<3>(quants), scale(3));
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
                let values = _mm512_mul_ps(uneven(IQ4_VALUES), _mm512_mul_ps(d, _mm512_set1_ps((scale - 32) as f32)));
                store(&mut step[r], _mm512_permutexvar_epi16(indices(block, 8 + 16 * group), table(values)));
            }
        }
    }
}

/// `numbers[i / each]`, from the `first`.
#[inline]
#[target_feature(enable = "avx512f")]
fn spread(numbers: __m512, first: usize, each: u32) -> __m512 {
    let lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    let from = _mm512_srl_epi32(lanes, _mm_cvtsi32_si128(each.trailing_zeros() as i32));
    _mm512_permutexvar_ps(_mm512_add_epi32(from, _mm512_set1_epi32(first as i32)), numbers)
}

/// Bits of `low` where `mask` has them, of `high` elsewhere.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn under(mask: i16, low: __m512i, high: __m512i) -> __m512i {
    _mm512_ternarylogic_epi32::<0xca>(_mm512_set1_epi16(mask), low, high)
}

/// A number for the first 16 columns and one for the last.
#[inline]
#[target_feature(enable = "avx512f")]
fn sides(first: i16, last: i16) -> __m512i {
    _mm512_inserti64x4::<1>(_mm512_set1_epi16(first), _mm256_set1_epi16(last))
}

impl Unpack for Q2K {
    const FORMAT: Format = Format::Q2K;

    /// A table has the four values of eight groups: half a block.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,f16c")]
    unsafe fn unpack(columns: &[u8], panel: &mut [Step], r: usize) {
        let quants = _mm512_cvtepi32_ps(_mm512_and_si512(_mm512_cvtps_epi32(counting()), _mm512_set1_epi32(3)));
        for (block, steps) in columns.as_chunks::<84>().0.iter().zip(panel.as_chunks_mut::<8>().0) {
            let packed = _mm512_cvtepu8_epi32(load_128(block, 0));
            let scales = _mm512_cvtepi32_ps(_mm512_and_si512(packed, _mm512_set1_epi32(15)));
            let scales = _mm512_mul_ps(scales, half_at(block, 80));
            let minima = _mm512_cvtepi32_ps(_mm512_srli_epi32::<4>(packed));
            let minima = _mm512_mul_ps(minima, half_at(block, 82));
            for half in 0..2 {
                let values = |first| _mm512_fmsub_ps(quants, spread(scales, first, 4), spread(minima, first, 4));
                let table = round(values(8 * half), values(8 * half + 4));
                let mut words = _mm512_cvtepu8_epi16(load_256(block, 16 + 32 * half));
                for run in 0..4 {
                    let groups = sides(8 * run, 8 * run + 4);
                    let columns = _mm512_permutexvar_epi16(under(3, words, groups), table);
                    store(&mut steps[4 * half + run as usize][r], columns);
                    words = _mm512_srli_epi16::<2>(words);
                }
            }
        }
    }
}

impl Unpack for Q3K {
    const FORMAT: Format = Format::Q3K;

    /// A table has the eight values of two groups: a run of 32.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,f16c")]
    unsafe fn unpack(columns: &[u8], panel: &mut [Step], r: usize) {
        let quants = _mm512_and_si512(_mm512_cvtps_epi32(counting()), _mm512_set1_epi32(7));
        let quants = _mm512_cvtepi32_ps(_mm512_sub_epi32(quants, _mm512_set1_epi32(4)));
        for (block, steps) in columns.as_chunks::<110>().0.iter().zip(panel.as_chunks_mut::<8>().0) {
            let numbers = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(scales_of_six(block)));
            let scales = _mm512_mul_ps(numbers, half_at(block, 108));
            // The third bit of run k is bit k: it is moved to bit 2.
            let mut third = _mm512_slli_epi16::<2>(_mm512_cvtepu8_epi16(load_256(block, 0)));
            for half in 0..2 {
                let mut words = _mm512_cvtepu8_epi16(load_256(block, 32 + 32 * half));
                for run in 4 * half..4 * half + 4 {
                    let values = table(_mm512_mul_ps(quants, spread(scales, 2 * run, 8)));
                    let indices = under(7, under(3, words, third), sides(0, 8));
                    store(&mut steps[run][r], _mm512_permutexvar_epi16(indices, values));
                    words = _mm512_srli_epi16::<2>(words);
                    third = _mm512_srli_epi16::<1>(third);
                }
            }
        }
    }
}

/// The scales of a Q3_K block, -32..32: low nibbles in 8 bytes (0..8, then 8..16 in the upper halves), then bytes of
/// four pairs of upper bits, for scales j, j + 4, j + 8 and j + 12.
#[inline]
#[target_feature(enable = "avx512f")]
fn scales_of_six(block: &[u8; 110]) -> __m128i {
    const NIBBLES: u64 = 0x0f0f_0f0f_0f0f_0f0f;
    const PAIRS: u64 = 0x0303_0303;
    let bytes: &[u8; 12] = block[96..].first_chunk().expect("14 bytes are left");
    let low = u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].each(|i| bytes[i]));
    let top = u64::from(u32::from_le_bytes([8, 9, 10, 11].each(|i| bytes[i])));
    let first = low & NIBBLES | (top & PAIRS | (top >> 2 & PAIRS) << 32) << 4;
    let last = low >> 4 & NIBBLES | (top >> 4 & PAIRS | (top >> 6 & PAIRS) << 32) << 4;
    _mm_sub_epi8(_mm_set_epi64x(last as i64, first as i64), _mm_set1_epi8(32))
}
