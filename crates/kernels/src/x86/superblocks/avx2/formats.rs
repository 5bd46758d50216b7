//! Superblocks of Q4_K, Q5_K and Q6_K on their way into panels.

use std::arch::x86_64::*;

use candor_quant::Format;

use super::pairs::Pairs;
use super::panel::{Panel, Superblock, columns, heads};
use crate::array::Each;
use crate::x86::avx2::registers::{store_256, store_ps};
use crate::x86::superblocks::Sums;

#[inline]
#[target_feature(enable = "avx2")]
fn and(register: __m256i, byte: u8) -> __m256i {
    _mm256_and_si256(register, _mm256_set1_epi8(byte as i8))
}

/// Both nibbles of all bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn nibbles(bytes: __m256i) -> [__m256i; 2] {
    [and(bytes, 15), and(_mm256_srli_epi32::<4>(bytes), 15)]
}

/// Half-precision numbers in the lower words of the lanes.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn halves(lanes: __m256i) -> __m256 {
    let words = _mm256_and_si256(lanes, _mm256_set1_epi32(0xffff));
    let packed = _mm256_packus_epi32(words, words);
    _mm256_cvtph_ps(_mm256_castsi256_si128(_mm256_permute4x64_epi64::<0b10_00_10_00>(packed)))
}

/// Scales and minima of a superblock that begins with d, dmin and 12 packed bytes.
///
/// The 12 bytes as three words: scales 0-3 with the upper bits of scales 4-7, minima likewise, the lower nibbles of
/// scales 4-7 and of minima 4-7.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn unpack_scales<const N: usize>(panel: &mut Panel, side: usize, rows: [&[u8; N]; 8]) {
    let [d, first, second, lower] = heads(rows, 0);
    store_ps(&mut panel.scales[side], halves(d));
    // Minima are subtracted, and sums of inputs come in sixteenths.
    let minimum_scales = _mm256_mul_ps(halves(_mm256_srli_epi32::<16>(d)), _mm256_set1_ps(-16.0));
    store_ps(&mut panel.minimum_scales[side], minimum_scales);
    let [low, high] = nibbles(lower);
    let upper = |register| and(_mm256_srli_epi32::<2>(register), 0x30);
    let scales = [and(first, 0x3f), _mm256_or_si256(low, upper(first))];
    let minima = [and(second, 0x3f), _mm256_or_si256(high, upper(second))];
    for pair in 0..4 {
        // Two bytes to two words.
        let words = |both: [__m256i; 2]| {
            let bytes = if pair % 2 == 0 { both[pair / 2] } else { _mm256_srli_epi32::<16>(both[pair / 2]) };
            let first = _mm256_and_si256(bytes, _mm256_set1_epi32(0xff));
            let second = _mm256_and_si256(_mm256_slli_epi32::<8>(bytes), _mm256_set1_epi32(0xff_0000));
            _mm256_or_si256(first, second)
        };
        store_256(&mut panel.factors[pair][0][side], words(scales));
        store_256(&mut panel.minima[pair][side], words(minima));
    }
}

pub struct Q4K;

impl Superblock for Q4K {
    const FORMAT: Format = Format::Q4K;
    const SUMS: Sums = Sums::Blocks;
    type Bytes = [u8; 144];

    fn split(row: &[u8]) -> &[Self::Bytes] {
        row.as_chunks().0
    }

    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn unpack<M: Pairs>(panel: &mut Panel, side: usize, rows: [&Self::Bytes; 8]) {
        unpack_scales(panel, side, rows);
        for pair in 0..4 {
            for (four, bytes) in columns(rows, 16 + 32 * pair).into_iter().enumerate() {
                panel.store_quants::<M>((pair, four, side), nibbles(bytes));
            }
        }
    }
}

pub struct Q5K;

impl Superblock for Q5K {
    const FORMAT: Format = Format::Q5K;
    const SUMS: Sums = Sums::Halves;
    type Bytes = [u8; 176];

    fn split(row: &[u8]) -> &[Self::Bytes] {
        row.as_chunks().0
    }

    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn unpack<M: Pairs>(panel: &mut Panel, side: usize, rows: [&Self::Bytes; 8]) {
        unpack_scales(panel, side, rows);
        let upper = columns(rows, 16);
        for pair in 0..4 {
            // The bits of both blocks come to lie lowest.
            let shift = _mm256_set1_epi32(2 * pair as i32);
            for (four, bytes) in columns(rows, 48 + 32 * pair).into_iter().enumerate() {
                let bits = _mm256_srlv_epi32(upper[four], shift);
                let [low, high] = nibbles(bytes);
                let first = _mm256_or_si256(low, _mm256_slli_epi32::<4>(and(bits, 1)));
                let second = _mm256_or_si256(high, _mm256_slli_epi32::<3>(and(bits, 2)));
                panel.store_quants::<M>((pair, four, side), [first, second]);
            }
        }
    }
}

pub struct Q6K;

impl Superblock for Q6K {
    const FORMAT: Format = Format::Q6K;
    const SUMS: Sums = Sums::CentredHalves;
    type Bytes = [u8; 210];

    fn split(row: &[u8]) -> &[Self::Bytes] {
        row.as_chunks().0
    }

    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn unpack<M: Pairs>(panel: &mut Panel, side: usize, rows: [&Self::Bytes; 8]) {
        let d = rows.each(|row| i32::from(u16::from_le_bytes([row[208], row[209]])));
        let d = _mm256_setr_epi32(d[0], d[1], d[2], d[3], d[4], d[5], d[6], d[7]);
        store_ps(&mut panel.scales[side], halves(d));
        // A pair's four bytes: the halves of the first block, the halves of the second.
        for (pair, bytes) in heads(rows, 192).into_iter().enumerate() {
            let first = _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(bytes));
            store_256(&mut panel.factors[pair][0][side], first);
            store_256(&mut panel.factors[pair][1][side], _mm256_srai_epi16::<8>(bytes));
        }
        for half in 0..2 {
            // Nibbles of the first and of the second block of two pairs, and two bits of all four blocks.
            let [a, b] = [columns(rows, 64 * half), columns(rows, 64 * half + 32)];
            let upper = columns(rows, 128 + 32 * half);
            for four in 0..8 {
                let ([a, a2], [b, b2]) = (nibbles(a[four]), nibbles(b[four]));
                let bits = upper[four];
                let with = |nibbles, bits| _mm256_or_si256(nibbles, and(bits, 0x30));
                let first = [with(a, _mm256_slli_epi32::<4>(bits)), with(b, _mm256_slli_epi32::<2>(bits))];
                panel.store_quants::<M>((2 * half, four, side), first);
                let second = [with(a2, bits), with(b2, _mm256_srli_epi32::<2>(bits))];
                panel.store_quants::<M>((2 * half + 1, four, side), second);
            }
        }
    }
}
