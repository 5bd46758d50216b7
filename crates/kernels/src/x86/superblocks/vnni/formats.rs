//! Superblocks of Q4_K, Q5_K and Q6_K on their way into panels.

use std::arch::x86_64::*;

use candor_quant::Format;

use super::panel::{ODD, Panel, Superblock, columns, exchanged, heads};
use crate::x86::batch::lines::store;
use crate::x86::superblocks::Sums;
use crate::x86::superblocks::mat::ROWS;

/// What the first and the second block of a pair are shifted by, lane by lane.
#[inline]
#[target_feature(enable = "avx512f")]
fn counts(first: i32, second: i32) -> __m512i {
    _mm512_mask_set1_epi32(_mm512_set1_epi32(first), ODD, second)
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
        panel.store_factors((pair, 0), words(scales));
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
        let shift = counts(0, 4);
        for two in 0..2 {
            let nibbles = columns(rows, 16 + 64 * two);
            for i in 0..16 {
                let side = |nibbles| and(_mm512_srlv_epi32(nibbles, shift), 15);
                panel.store_quants((2 * two + i / 8, i % 8), [side(nibbles[i]), side(exchanged(nibbles[i]))]);
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
            let fifth = counts(2 * pair as i32, 2 * pair as i32 + 1);
            for step in 0..8 {
                let nibbles = match pair {
                    0 => front[8 + step],
                    1 => middle[step],
                    2 => middle[8 + step],
                    _ => back[8 + step],
                };
                let side = |nibbles, bits| {
                    let bits = and(_mm512_srlv_epi32(bits, fifth), 1);
                    let nibbles = and(_mm512_srlv_epi32(nibbles, counts(0, 4)), 15);
                    _mm512_or_si512(nibbles, _mm512_slli_epi32::<4>(bits))
                };
                let other = side(exchanged(nibbles), exchanged(front[step]));
                panel.store_quants((pair, step), [side(nibbles, front[step]), other]);
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
            panel.store_factors((pair, 0), _mm512_srai_epi16::<8>(_mm512_slli_epi16::<8>(bytes)));
            panel.store_factors((pair, 1), _mm512_srai_epi16::<8>(bytes));
        }
        let upper = columns(rows, 128);
        for half in 0..2 {
            // The nibbles of the first and of the second block of two pairs.
            let nibbles = columns(rows, 64 * half);
            for step in 0..8 {
                let (first, second) = (nibbles[step], nibbles[8 + step]);
                let own = _mm512_mask_mov_epi32(first, ODD, second);
                let other = exchanged(_mm512_mask_mov_epi32(second, ODD, first));
                let bits = upper[8 * half + step];
                for high in 0..2 {
                    let side = |nibbles, bits| {
                        let nibbles = if high == 1 { _mm512_srli_epi32::<4>(nibbles) } else { nibbles };
                        let bits = and(_mm512_srlv_epi32(bits, counts(4 * high, 4 * high + 2)), 3);
                        _mm512_or_si512(and(nibbles, 15), _mm512_slli_epi32::<4>(bits))
                    };
                    let pair = 2 * half + high as usize;
                    panel.store_quants((pair, step), [side(own, bits), side(other, exchanged(bits))]);
                }
            }
        }
    }
}
