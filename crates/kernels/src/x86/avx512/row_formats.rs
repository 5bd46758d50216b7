//! How 256 weights of each format become bytes in order. Scales and minima are read as AVX2's table reads them.

use std::arch::x86_64::*;

use super::factored::{of_rows, words_of_four};
use super::quarters;
use super::registers::load_512;
use super::row::{Row, both as join};
use super::row_bits::*;
use super::row_scales::*;
use crate::array::Each;
use crate::weights::IQ4_VALUES;
use crate::x86::avx2::fold::negated;
use crate::x86::avx2::format::Quant;
use crate::x86::avx2::k_halves::{self, Q2K, Q3K, Q6K};
use crate::x86::avx2::k_quants::{Q4K, Q5K};
use crate::x86::avx2::legacy::{FP4_RAISED, Mxfp4, Q4_0, Q4_1, Q5_0, Q5_1, half_powers, halves_at};
use crate::x86::avx2::nvfp4::{Nvfp4, e4m3_halves};
use crate::x86::avx2::registers::{load_128, load_256};
use crate::x86::avx2::signed::{Iq4Nl, Iq4Xs, Q8_0, scales_xs};

/// What weights of [`Row::strips`] are multiplied by, where their bits lie so.
const TIMES_2: [u8; 4] = [1, 4, 1, 4];
const TIMES_3: [u8; 4] = [1, 2, 1, 2];

/// A row of a format: how its quants are unpacked, its scales, and what else it has.
macro_rules! row {
    (
        $format:ident, $w:ident $(, bits $bits:expr)? $(, strips times $multiples:expr)? $(, quants $i:ident => $quants:expr)?;
        $($part:ident($both:ident): $type:ty => $body:expr;)*
    ) => {
        impl Row for $format {
            $(const QUARTERS: Option<u32> = Some($bits);)?
            $(const STRIPS: Option<[u8; 4]> = Some($multiples);)?

            $(#[inline]
            #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
            unsafe fn quants($w: &<Self as Quant>::Group) -> [__m512i; 4] {
                let mut quants = [_mm512_setzero_si512(); 4];
                for $i in 0..4 {
                    quants[$i] = $quants;
                }
                quants
            })?

            $(#[inline]
            #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
            unsafe fn $part($both: row!(argument $part)) -> $type {
                $body
            })*
        }
    };
    (argument strips) => { &<Self as Quant>::Group };
    (argument factors_of_four) => { [&<Self as Quant>::Group; 4] };
    (argument quarter_factors) => { [&<Self as Quant>::Group; 4] };
    (argument quarters) => { &<Self as Quant>::Group };
    (argument factors) => { &<Self as Quant>::Group };
    (argument floats) => { __m128i };
    (argument nibbles) => { &<Self as Quant>::Group };
    (argument scales_minima) => { [&<Self as Quant>::Group; 4] };
    (argument $other:ident) => { [&<Self as Quant>::Group; 2] };
}

row! { Q4_0, w, bits 4;
    nibbles(w): [__m512i; 2] => [paired(w, 2, 18), paired(w, 74, 18)];
    quarters(w): [[__m512i; 2]; 2] => nibble_quarters(w, 2, 18);
    scales(both): __m512 => join(both.each(|w| scales_18(w)));
    scales_minima(four): [ScalesMinima; 2] => without_minima(scales_18_of_four(four));
}

row! { Q4_1, w, bits 4;
    nibbles(w): [__m512i; 2] => [paired(w, 4, 20), paired(w, 84, 20)];
    quarters(w): [[__m512i; 2]; 2] => nibble_quarters(w, 4, 20);
    scales(both): __m512 => join(both.each(|w| halves_at(w, 0, 20)));
    scales_minima(four): [ScalesMinima; 2] => scales_minima_20(four);
    minima(both): [__m512; 2] => [join(both.each(|w| negated(halves_at(w, 2, 20)))); 2];
}

row! { Q5_0, w, bits 5,
    quants i => with_fifth(nibbles(w, i * 44 + 6, 22), fifth_bits(w, i * 44 + 2, 22));
    quarters(w): [[__m512i; 2]; 2] => with_fifth_bits(nibble_quarters(w, 6, 22), words_22(w));
    scales(both): __m512 => join(both.each(|w| halves_at(w, 0, 22)));
    scales_minima(four): [ScalesMinima; 2] => without_minima(scales_of_four(four.each(|w| words_22(w))));
}

row! { Q5_1, w, bits 5,
    quants i => with_fifth(nibbles(w, i * 48 + 8, 24), fifth_bits(w, i * 48 + 4, 24));
    quarters(w): [[__m512i; 2]; 2] => with_fifth_bits(nibble_quarters(w, 8, 24), words_24(w));
    scales(both): __m512 => join(both.each(|w| halves_at(w, 0, 24)));
    scales_minima(four): [ScalesMinima; 2] => scales_minima_24(four);
    minima(both): [__m512; 2] => [join(both.each(|w| negated(halves_at(w, 2, 24)))); 2];
}

row! { Q8_0, w,
    quants i => {
        let low = _mm512_castsi256_si512(load_256(w, i * 68 + 2));
        _mm512_xor_si512(_mm512_inserti64x4::<1>(low, load_256(w, i * 68 + 36)), _mm512_set1_epi8(-128))
    };
    scales(both): __m512 => join(both.each(|w| halves_at(w, 0, 34)));
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

row! { Iq4Nl, w, bits 8,
    quants i => look_up(nibbles(w, i * 36 + 2, 18));
    quarters(w): [[__m512i; 2]; 2] => nibble_quarters(w, 2, 18).each(|halves| halves.each(|x| look_up(x)));
    scales(both): __m512 => join(both.each(|w| scales_18(w)));
    scales_minima(four): [ScalesMinima; 2] => without_minima(scales_18_of_four(four));
}

row! { Iq4Xs, w, bits 8,
    quants i => look_up(nibbles(w, i * 32 + 8, 16));
    quarters(w): [[__m512i; 2]; 2] => {
        quarters::halves(load_512(w, 8), load_512(w, 72)).each(|x| [look_up(low_nibbles(x)), look_up(high_nibbles(x))])
    };
    scales(both): __m512 => join(both.each(|w| scales_xs(w)));
    scales_minima(four): [ScalesMinima; 2] => without_minima(scales_xs_of_four(four));
}

/// The 4-bit floats that nibbles stand for, raised.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn look_up_fp4(nibbles: __m512i) -> __m512i {
    _mm512_shuffle_epi8(_mm512_broadcast_i32x4(load_128(&FP4_RAISED, 0)), nibbles)
}

row! { Mxfp4, w, bits 5,
    quants i => look_up_fp4(nibbles(w, i * 34 + 1, 17));
    quarters(w): [[__m512i; 2]; 2] => nibble_quarters(w, 1, 17).each(|halves| halves.each(|x| look_up_fp4(x)));
    scales(both): __m512 => join(both.each(|w| half_powers(w)));
    scales_minima(four): [ScalesMinima; 2] => without_minima(half_powers_of_four(four));
}

row! { Nvfp4, w,
    quants i => {
        // Each 8 bytes are 16 weights, the low nibbles first.
        let bytes = _mm512_castsi256_si512(load_256(w, i * 36 + 4));
        let twice = _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 0, 1, 1, 2, 2, 3, 3), bytes);
        let counts = _mm512_setr_epi64(0, 4, 0, 4, 0, 4, 0, 4);
        look_up_fp4(_mm512_and_si512(_mm512_srlv_epi64(twice, counts), _mm512_set1_epi8(15)))
    };
    scales(_both): __m512 => _mm512_set1_ps(1.0);
    factors(w): __m128i => {
        let order = _mm512_castsi128_si512(_mm_setr_epi32(0, 9, 18, 27));
        _mm512_castsi512_si128(_mm512_permutex2var_epi32(load_512(w, 0), order, load_512(w, 64)))
    };
    floats(bytes): __m512 => {
        _mm512_mul_ps(_mm512_cvtph_ps(e4m3_halves(bytes)), _mm512_set1_ps(128.0))
    };
}

row! { Q2K, w, strips times TIMES_2,
    quants i => {
        let shift = (i % 2 * 4) as i16;
        _mm512_and_si512(shifted(load_256(w, 16 + i / 2 * 32), shift, shift + 2), _mm512_set1_epi8(3))
    };
    scales(both): __m512 => join(both.each(|w| k_halves::half_at(w, 80)));
    minima(both): [__m512; 2] => {
        let [a, b] = both.each(|w| k_halves::minima_2(w));
        [join([a[0], b[0]]), join([a[1], b[1]])]
    };
    factors(w): __m128i => k_halves::factors_2(w);
    strips(w): [__m512i; 4] => {
        // Pairs of bits where they are: the first and the third of a byte are plain.
        let (low, high) = (load_512(w, 16), _mm512_srli_epi16::<4>(load_512(w, 16)));
        let (plain, fourfold) = (_mm512_set1_epi8(3), _mm512_set1_epi8(12));
        [
            _mm512_and_si512(low, plain),
            _mm512_and_si512(low, fourfold),
            _mm512_and_si512(high, plain),
            _mm512_and_si512(high, fourfold),
        ]
    };
    factors_of_four(four): [__m512i; 2] => {
        words_of_four(low_nibbles(join_quarters(four.each(|w| load_128(w, 0)))))
    };
    scales_minima(four): [ScalesMinima; 2] => scales_minima_2(four, TIMES_2);
}

row! { Q3K, w, strips times TIMES_3,
    quants i => {
        let shift = (i % 2 * 4) as i16;
        let low = _mm512_and_si512(shifted(load_256(w, 32 + i / 2 * 32), shift, shift + 2), _mm512_set1_epi8(3));
        let third = _mm512_broadcast_i64x4(load_256(w, 0));
        with_bits(low, third, bytes(1 << (2 * i), 1 << (2 * i + 1)), 4)
    };
    scales(both): __m512 => join(both.each(|w| k_halves::half_at(w, 108)));
    factors(w): __m128i => k_halves::factors_3(w);
    strips(w): [__m512i; 4] => {
        // Third bits of blocks 0 to 3 in the lower half, and of 4 to 7 in the upper one, as bits 0 to 3; what comes from the
        // neighbouring byte is masked.
        let counts = _mm512_inserti64x4::<1>(_mm512_setzero_si512(), _mm256_set1_epi16(4));
        let third = _mm512_srlv_epi16(_mm512_broadcast_i64x4(load_256(w, 0)), counts);
        let left = _mm512_slli_epi16::<2>(third);
        let low = load_512(w, 32);
        let bits = [
            (low, left),
            (_mm512_srli_epi16::<1>(low), left),
            (_mm512_srli_epi16::<4>(low), third),
            (_mm512_srli_epi16::<5>(low), third),
        ];
        let mut strips = [low; 4];
        for j in 0..4 {
            let (low, third) = bits[j];
            let low = _mm512_and_si512(low, _mm512_set1_epi8(3 << (j % 2)));
            // (third & (4 << j % 2)) | low
            strips[j] = _mm512_ternarylogic_epi32::<0xf8>(low, third, _mm512_set1_epi8(4 << (j % 2)));
        }
        strips
    };
    factors_of_four(four): [__m512i; 2] => words_of_four(factors_3_of_four(tails_3(four)));
    scales_minima(four): [ScalesMinima; 2] => {
        let order = _mm512_castsi128_si512(_mm_setr_epi16(7, 15, 23, 31, 0, 0, 0, 0));
        let d = _mm_cvtph_ps(_mm512_castsi512_si128(_mm512_permutexvar_epi16(order, tails_3(four))));
        without_minima(of_rows(d, TIMES_3))
    };
}

row! { Q4K, w, bits 4;
    nibbles(w): [__m512i; 2] => [load_512(w, 16), load_512(w, 80)];
    quarters(w): [[__m512i; 2]; 2] => {
        let halves = quarters::halves(load_512(w, 16), load_512(w, 80));
        [halves.each(|x| low_nibbles(x)), halves.each(|x| high_nibbles(x))]
    };
    scales(both): __m512 => scales_minima(both)[0];
    minima(both): [__m512; 2] => [scales_minima(both)[1]; 2];
    quarter_factors(four): [__m512i; 2] => Heads::new(four).factors();
    scales_minima(four): [ScalesMinima; 2] => Heads::new(four).scales_minima();
}

row! { Q5K, w, bits 5,
    quants i => {
        let low = _mm512_and_si512(shifted(load_256(w, 48 + i * 32), 0, 4), _mm512_set1_epi8(15));
        // Bits 2 * i and 2 * i + 1 as the fifth ones; what comes from the neighbouring byte is masked.
        let left = |bit: i32| (4 - bit) & 31;
        let (first, second) = (_mm256_set1_epi32(left(2 * i as i32)), _mm256_set1_epi32(left(2 * i as i32 + 1)));
        let counts = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(first), second);
        let fifth = _mm512_rolv_epi32(_mm512_broadcast_i64x4(load_256(w, 16)), counts);
        // (fifth & 16) | low
        _mm512_ternarylogic_epi32::<0xf8>(low, fifth, _mm512_set1_epi8(16))
    };
    quarters(w): [[__m512i; 2]; 2] => {
        let halves = quarters::halves(load_512(w, 48), load_512(w, 112));
        let fifths = [0, 16].each(|at| _mm512_broadcast_i32x4(load_128(w, 16 + at)));
        let mut quarters = [halves; 2];
        for e in 0..2 {
            for h in 0..2 {
                let low = if e == 0 { low_nibbles(halves[h]) } else { high_nibbles(halves[h]) };
                // Bit 2 * q + e of quarter q as the fifth one; what comes from the neighbouring byte is masked.
                let [a, b, c, d] = [0, 2, 4, 6].each(|bit| _mm_set1_epi32((4 - bit - e as i32) & 31));
                let fifth = _mm512_rolv_epi32(fifths[h], join_quarters([a, b, c, d]));
                // (fifth & 16) | low
                quarters[e][h] = _mm512_ternarylogic_epi32::<0xf8>(low, fifth, _mm512_set1_epi8(16));
            }
        }
        quarters
    };
    scales(both): __m512 => scales_minima(both)[0];
    minima(both): [__m512; 2] => [scales_minima(both)[1]; 2];
    scales_minima(four): [ScalesMinima; 2] => Heads::new(four).factored_minima();
}

row! { Q6K, w, strips times [1; 4],
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
    scales(both): __m512 => join(both.each(|w| k_halves::half_at(w, 208)));
    factors(w): __m128i => load_128(w, 192);
    strips(w): [__m512i; 4] => {
        let (a, b) = (load_512(w, 0), load_512(w, 64));
        // Blocks 0 and 4 below blocks 2 and 6, and blocks 1 and 5 below blocks 3 and 7.
        let lower = [_mm512_shuffle_i32x4::<0b01_00_01_00>(a, b), _mm512_shuffle_i32x4::<0b11_10_11_10>(a, b)];
        let upper = load_512(w, 128);
        let lower = [lower[0], lower[1], _mm512_srli_epi16::<4>(lower[0]), _mm512_srli_epi16::<4>(lower[1])];
        let upper = [
            _mm512_slli_epi16::<4>(upper),
            _mm512_slli_epi16::<2>(upper),
            upper,
            _mm512_srli_epi16::<2>(upper),
        ];
        let mut strips = lower;
        for j in 0..4 {
            // (lower & 15) | (upper & 0x30)
            let upper = _mm512_and_si512(upper[j], _mm512_set1_epi8(0x30));
            strips[j] = _mm512_ternarylogic_epi32::<0xf8>(upper, lower[j], _mm512_set1_epi8(15));
        }
        strips
    };
    factors_of_four(four): [__m512i; 2] => words_of_four(join_quarters(four.each(|w| load_128(w, 192))));
    scales_minima(four): [ScalesMinima; 2] => {
        let d = four.each(|w| u64::from(u16::from_le_bytes([w[208], w[209]])));
        let d = d[0] | d[1] << 16 | d[2] << 32 | d[3] << 48;
        without_minima(of_rows(_mm_cvtph_ps(_mm_cvtsi64_si128(d as i64)), [1; 4]))
    };
}
