//! How 256 weights of each format become bytes in order. Scales and minima are read as AVX2's table reads them.

use std::arch::x86_64::*;

use super::registers::load_512;
use super::row::Row;
use crate::weights::IQ4_VALUES;
use crate::x86::avx2::fold::negated;
use crate::x86::avx2::format::Quant;
use crate::x86::avx2::k_halves::{self, Q2K, Q3K, Q6K};
use crate::x86::avx2::k_quants::{Q4K, Q5K, scales_minima};
use crate::x86::avx2::legacy::{Q4_0, Q4_1, Q5_0, Q5_1, halves_at};
use crate::x86::avx2::registers::{load_128, load_256};
use crate::x86::avx2::signed::{Iq4Nl, Iq4Xs, Q8_0, scales_xs};

/// One byte in the lower 32 lanes, another in the upper ones.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn bytes(low: u8, high: u8) -> __m512i {
    _mm512_inserti64x4::<1>(_mm512_castsi256_si512(_mm256_set1_epi8(low as i8)), _mm256_set1_epi8(high as i8))
}

/// 32 bytes in both halves, shifted right by `low` bits in the lower half and by `high` in the upper one. Bits cross into
/// the neighbouring byte: mask them.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn shifted(bytes: __m256i, low: i16, high: i16) -> __m512i {
    let counts =
        _mm512_inserti64x4::<1>(_mm512_castsi256_si512(_mm256_set1_epi16(low)), _mm256_set1_epi16(high));
    _mm512_srlv_epi16(_mm512_broadcast_i64x4(bytes), counts)
}

/// `weights`, and `more` added where a byte has a bit of `bits`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn with_bits(weights: __m512i, bytes: __m512i, bits: __m512i, more: i8) -> __m512i {
    let set = _mm512_test_epi8_mask(bytes, bits);
    _mm512_mask_add_epi8(weights, set, weights, _mm512_set1_epi8(more))
}

/// Two blocks of 16 bytes of nibbles, element `i` low and element `i + 16` high.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn nibbles<const N: usize>(w: &[u8; N], at: usize, stride: usize) -> __m512i {
    let first = _mm512_broadcast_i32x4(load_128(w, at));
    let two = _mm512_mask_broadcast_i32x4(first, 0xff00, load_128(w, at + stride));
    let counts = _mm512_broadcast_i64x4(_mm256_set_m128i(_mm_set1_epi16(4), _mm_setzero_si128()));
    _mm512_and_si512(_mm512_srlv_epi16(two, counts), _mm512_set1_epi8(15))
}

/// The 32 fifth bits at `at` and those `stride` later, as a mask of two blocks.
#[inline]
fn fifth_bits<const N: usize>(w: &[u8; N], at: usize, stride: usize) -> u64 {
    let bits = |at: usize| u64::from(u32::from_le_bytes([w[at], w[at + 1], w[at + 2], w[at + 3]]));
    bits(at) | bits(at + stride) << 32
}

/// A row of a format: how its quants are unpacked, its scale, and what else it has.
macro_rules! row {
    ($format:ident, $w:ident: quants $i:ident => $quants:expr; $($part:ident: $type:ty => $body:expr;)*) => {
        impl Row for $format {
            #[inline]
            #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
            unsafe fn quants($w: &<Self as Quant>::Group) -> [__m512i; 4] {
                let mut quants = [_mm512_setzero_si512(); 4];
                for $i in 0..4 {
                    quants[$i] = $quants;
                }
                quants
            }

            $(#[inline]
            #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
            unsafe fn $part($w: &<Self as Quant>::Group) -> $type {
                $body
            })*
        }
    };
}

row! { Q4_0, w:
    quants i => nibbles(w, i * 36 + 2, 18);
    scale: __m256 => halves_at(w, 0, 18);
}

row! { Q4_1, w:
    quants i => nibbles(w, i * 40 + 4, 20);
    scale: __m256 => halves_at(w, 0, 20);
    minima: [__m256; 2] => [negated(halves_at(w, 2, 20)); 2];
}

row! { Q5_0, w:
    quants i => {
        let low = nibbles(w, i * 44 + 6, 22);
        _mm512_mask_add_epi8(low, fifth_bits(w, i * 44 + 2, 22), low, _mm512_set1_epi8(16))
    };
    scale: __m256 => halves_at(w, 0, 22);
}

row! { Q5_1, w:
    quants i => {
        let low = nibbles(w, i * 48 + 8, 24);
        _mm512_mask_add_epi8(low, fifth_bits(w, i * 48 + 4, 24), low, _mm512_set1_epi8(16))
    };
    scale: __m256 => halves_at(w, 0, 24);
    minima: [__m256; 2] => [negated(halves_at(w, 2, 24)); 2];
}

row! { Q8_0, w:
    quants i => {
        let low = _mm512_castsi256_si512(load_256(w, i * 68 + 2));
        _mm512_xor_si512(_mm512_inserti64x4::<1>(low, load_256(w, i * 68 + 36)), _mm512_set1_epi8(-128))
    };
    scale: __m256 => halves_at(w, 0, 34);
}

/// The weights that nibbles stand for, plus 128.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn look_up(nibbles: __m512i) -> __m512i {
    const TABLE: [u8; 16] = {
        let mut table = [0; 16];
        let mut i = 0;
        while i < 16 {
            table[i] = (IQ4_VALUES[i] as u8) ^ 0x80;
            i += 1;
        }
        table
    };
    _mm512_shuffle_epi8(_mm512_broadcast_i32x4(load_128(&TABLE, 0)), nibbles)
}

row! { Iq4Nl, w:
    quants i => look_up(nibbles(w, i * 36 + 2, 18));
    scale: __m256 => halves_at(w, 0, 18);
}

row! { Iq4Xs, w:
    quants i => look_up(nibbles(w, i * 32 + 8, 16));
    scale: __m256 => scales_xs(w);
}

row! { Q2K, w:
    quants i => {
        let shift = (i % 2 * 4) as i16;
        _mm512_and_si512(shifted(load_256(w, 16 + i / 2 * 32), shift, shift + 2), _mm512_set1_epi8(3))
    };
    scale: __m256 => k_halves::half_at(w, 80);
    minima: [__m256; 2] => k_halves::minima_2(w);
    factors: __m128i => k_halves::factors_2(w);
}

row! { Q3K, w:
    quants i => {
        let shift = (i % 2 * 4) as i16;
        let low = _mm512_and_si512(shifted(load_256(w, 32 + i / 2 * 32), shift, shift + 2), _mm512_set1_epi8(3));
        let third = _mm512_broadcast_i64x4(load_256(w, 0));
        with_bits(low, third, bytes(1 << (2 * i), 1 << (2 * i + 1)), 4)
    };
    scale: __m256 => k_halves::half_at(w, 108);
    factors: __m128i => k_halves::factors_3(w);
}

row! { Q4K, w:
    quants i => _mm512_and_si512(shifted(load_256(w, 16 + i * 32), 0, 4), _mm512_set1_epi8(15));
    scale: __m256 => scales_minima(w).0;
    minima: [__m256; 2] => [scales_minima(w).1; 2];
}

row! { Q5K, w:
    quants i => {
        let low = _mm512_and_si512(shifted(load_256(w, 48 + i * 32), 0, 4), _mm512_set1_epi8(15));
        let fifth = _mm512_broadcast_i64x4(load_256(w, 16));
        with_bits(low, fifth, bytes(1 << (2 * i), 1 << (2 * i + 1)), 16)
    };
    scale: __m256 => scales_minima(w).0;
    minima: [__m256; 2] => [scales_minima(w).1; 2];
}

row! { Q6K, w:
    quants i => {
        // Each half of 128 columns has 64 bytes of lower bits, 32 of upper ones and four blocks.
        let lower = load_512(w, i / 2 * 64);
        let upper = _mm512_broadcast_i64x4(load_256(w, 128 + i / 2 * 32));
        let (lower, upper) = if i % 2 == 0 {
            let counts = _mm512_inserti64x4::<1>(_mm512_set1_epi16(4), _mm256_set1_epi16(2));
            (lower, _mm512_sllv_epi16(upper, counts))
        } else {
            let counts = _mm512_inserti64x4::<1>(_mm512_setzero_si512(), _mm256_set1_epi16(2));
            (_mm512_srli_epi16::<4>(lower), _mm512_srlv_epi16(upper, counts))
        };
        // (lower & 15) | (upper & 0x30)
        let upper = _mm512_and_si512(upper, _mm512_set1_epi8(0x30));
        _mm512_ternarylogic_epi32::<0xf8>(upper, lower, _mm512_set1_epi8(15))
    };
    scale: __m256 => k_halves::half_at(w, 208);
    factors: __m128i => load_128(w, 192);
}
