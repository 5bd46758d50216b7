//! Superblocks of Q4_K, Q5_K and Q6_K on their way into panels.

use std::arch::x86_64::*;

use candor_quant::Format;

use super::panel::{Panel, Superblock, columns, heads};
use crate::x86::batch::lines::store;
use crate::x86::superblocks::Sums;
use crate::x86::superblocks::mat::ROWS;

#[inline]
#[target_feature(enable = "avx512f")]
fn shifted(register: __m512i, count: usize) -> __m512i {
    _mm512_srl_epi32(register, _mm_cvtsi32_si128(count as i32))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn and(register: __m512i, byte: i8) -> __m512i {
    _mm512_and_si512(register, _mm512_set1_epi32(i32::from_ne_bytes([byte as u8; 4])))
}

/// Half-precision numbers in the lower words of the lanes.
#[inline]
#[target_feature(enable = "avx512f")]
fn halves(register: __m512i) -> __m512 {
    _mm512_cvtph_ps(_mm512_cvtepi32_epi16(register))
}

/// Scales and minima of a superblock that begins with d, dmin and 12 packed bytes.
///
/// The 12 bytes as three words: scales 0-3 with the upper bits of scales 4-7, minima likewise, the lower nibbles of
/// scales 4-7 and of minima 4-7.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn unpack_scales<const N: usize>(panel: &mut Panel, rows: [&[u8; N]; ROWS]) {
    let [d, first, second, nibbles] = heads(rows, 0);
    store(&mut panel.scales, _mm512_castps_si512(halves(d)));
    // Minima are subtracted, and sums of inputs come in sixteenths.
    let minimum_scales = _mm512_mul_ps(halves(_mm512_srli_epi32::<16>(d)), _mm512_set1_ps(-16.0));
    store(&mut panel.minimum_scales, _mm512_castps_si512(minimum_scales));
    let upper = |register| and(_mm512_srli_epi32::<2>(register), 0x30);
    let scales = [and(first, 0x3f), _mm512_or_si512(and(nibbles, 0x0f), upper(first))];
    let high_nibbles = and(_mm512_srli_epi32::<4>(nibbles), 0x0f);
    let minima = [and(second, 0x3f), _mm512_or_si512(high_nibbles, upper(second))];
    for pair in 0..4 {
        // Two bytes to two words.
        let words = |[low, high]: [__m512i; 2]| {
            let bytes = if pair < 2 { low } else { high };
            let bytes = if pair % 2 == 0 { bytes } else { _mm512_srli_epi32::<16>(bytes) };
            let first = _mm512_and_si512(bytes, _mm512_set1_epi32(0xff));
            let second = _mm512_and_si512(_mm512_slli_epi32::<8>(bytes), _mm512_set1_epi32(0xff_0000));
            _mm512_or_si512(first, second)
        };
        store(&mut panel.factors[pair][0], words(scales));
        store(&mut panel.minima[pair], words(minima));
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

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
    unsafe fn unpack(panel: &mut Panel, rows: [&Self::Bytes; ROWS]) {
        unpack_scales(panel, rows);
        for two in 0..2 {
            let nibbles = columns(rows, 16 + 64 * two);
            for i in 0..16 {
                let blocks = [and(nibbles[i], 15), and(shifted(nibbles[i], 4), 15)];
                panel.store_quants((2 * two + i / 8, i % 8), blocks);
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

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
    unsafe fn unpack(panel: &mut Panel, rows: [&Self::Bytes; ROWS]) {
        unpack_scales(panel, rows);
        // The fifth bits of all, with the nibbles of the first pair; then the nibbles of the other pairs.
        let [front, middle, back] = [columns(rows, 16), columns(rows, 80), columns(rows, 112)];
        for pair in 0..4 {
            for step in 0..8 {
                let nibbles = match pair {
                    0 => front[8 + step],
                    1 => middle[step],
                    2 => middle[8 + step],
                    _ => back[8 + step],
                };
                let block = |block: usize| {
                    let fifth = and(shifted(front[step], 2 * pair + block), 1);
                    _mm512_or_si512(and(shifted(nibbles, 4 * block), 15), _mm512_slli_epi32::<4>(fifth))
                };
                panel.store_quants((pair, step), [block(0), block(1)]);
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

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
    unsafe fn unpack(panel: &mut Panel, rows: [&Self::Bytes; ROWS]) {
        let mut d = [0; ROWS];
        for r in 0..ROWS {
            d[r] = i32::from(u16::from_le_bytes([rows[r][208], rows[r][209]]));
        }
        let d = _mm512_setr_epi32(
            d[0], d[1], d[2], d[3], d[4], d[5], d[6], d[7], d[8], d[9], d[10], d[11], d[12], d[13], d[14], d[15],
        );
        store(&mut panel.scales, _mm512_castps_si512(halves(d)));
        // A pair's four bytes: the halves of the first block, the halves of the second.
        for (pair, bytes) in heads(rows, 192).into_iter().enumerate() {
            store(&mut panel.factors[pair][0], _mm512_srai_epi16::<8>(_mm512_slli_epi16::<8>(bytes)));
            store(&mut panel.factors[pair][1], _mm512_srai_epi16::<8>(bytes));
        }
        let upper = columns(rows, 128);
        for half in 0..2 {
            // The nibbles of the first and of the second block of two pairs.
            let nibbles = columns(rows, 64 * half);
            for step in 0..8 {
                for high in 0..2 {
                    let block = |block: usize| {
                        let nibbles = and(shifted(nibbles[8 * block + step], 4 * high), 15);
                        let bits = and(shifted(upper[8 * half + step], 4 * high + 2 * block), 3);
                        _mm512_or_si512(nibbles, _mm512_slli_epi32::<4>(bits))
                    };
                    panel.store_quants((2 * half + high, step), [block(0), block(1)]);
                }
            }
        }
    }
}
