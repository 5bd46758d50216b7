//! Q2_K, Q3_K and Q6_K: blocks of 256 with an integer factor per 16 columns.

use std::arch::x86_64::*;

use candor_quant::Format;

use super::fold::{join, negated, transpose, transpose_ps};
use super::format::{GROUP, Products, Quant};
use super::halves::Halves;
use super::multiply::Multiply;
use super::registers::{load_128, load_256, store_256, store_ps};
use crate::array::Each;

/// The half-precision number at `at`, in every lane.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn half_at<const N: usize>(w: &[u8; N], at: usize) -> __m256 {
    let bits = u16::from_le_bytes([w[at], w[at + 1]]);
    _mm256_broadcastss_ps(_mm_cvtph_ps(_mm_cvtsi32_si128(i32::from(bits))))
}

/// Halves of eight blocks as `fold_*_halves` gives them times 16 signed bytes of factors; lane = block.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn times_factors([a, b]: [__m256i; 2], factors: __m128i) -> __m256i {
    let order = _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15);
    let factors = _mm_shuffle_epi8(factors, order);
    let a = _mm256_mullo_epi32(a, _mm256_cvtepi8_epi32(factors));
    let b = _mm256_mullo_epi32(b, _mm256_cvtepi8_epi32(_mm_unpackhi_epi64(factors, factors)));
    join([a, b])
}

/// Sets the factors and the scale of eight rows.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn unpack_factors<M: Multiply, const N: usize, const D: usize, const O: i16>(
    panel: &mut Halves<M, D, O>,
    factors: [__m128i; 8],
    rows: [&[u8; N]; 8],
    scale_at: usize,
) {
    let blocks = transpose(factors.each(|factors| _mm256_cvtepi8_epi16(factors)));
    for (block, factors) in blocks.into_iter().enumerate() {
        panel.set_factors(block, factors);
    }
    store_ps(&mut panel.scale, transpose_ps(rows.each(|row| half_at(row, scale_at)))[0]);
}

/// Two bits of each byte from bit `2 * pair`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn two_bits(bytes: __m256i, pair: usize) -> __m256i {
    let shifted = _mm256_srl_epi16(bytes, _mm_cvtsi32_si128(2 * pair as i32));
    _mm256_and_si256(shifted, _mm256_set1_epi8(3))
}

/// 2 bits; 4-bit factors and minima. 16 bytes of factors and minima, 64 of quants, d, dmin.
pub struct Q2K;

/// Minima of the first and of the second halves of eight blocks; lane = block.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn minima_2(w: &[u8; 84]) -> [__m256; 2] {
    let nibbles = _mm_and_si128(_mm_srli_epi16::<4>(load_128(w, 0)), _mm_set1_epi8(15));
    let both = _mm256_cvtepu8_epi16(nibbles);
    let first = _mm256_and_si256(both, _mm256_set1_epi32(0xffff));
    let second = _mm256_srli_epi32::<16>(both);
    let dmin = half_at(w, 82);
    [_mm256_mul_ps(dmin, _mm256_cvtepi32_ps(first)), _mm256_mul_ps(dmin, _mm256_cvtepi32_ps(second))]
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn factors_2(w: &[u8; 84]) -> __m128i {
    _mm_and_si128(load_128(w, 0), _mm_set1_epi8(15))
}

impl<M: Multiply> Quant<M> for Q2K {
    const FORMAT: Format = Format::Q2K;
    type Group = [u8; 84];
    type Panel = Halves<M, 4, 0>;

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn products(w: &Self::Group, x: &[i8; GROUP], _: __m256i) -> Products {
        let mut quants = [_mm256_setzero_si256(); 8];
        for j in 0..8 {
            quants[j] = two_bits(load_256(w, 16 + j / 4 * 32), j % 4);
        }
        // SAFETY: the caller promises what `narrow_halves` asks for.
        let halves = unsafe { M::narrow_halves(quants, x) };
        let sums = times_factors(halves, factors_2(w));
        Products { sums: _mm256_cvtepi32_ps(sums), scale: half_at(w, 80), minima: minima_2(w) }
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn unpack(panel: &mut Self::Panel, rows: [&Self::Group; 8]) {
        unpack_factors(panel, rows.each(|row| factors_2(row)), rows, 80);
        let minima = rows.each(|row| minima_2(row));
        let first = transpose_ps(minima.each(|[first, _]| first));
        let second = transpose_ps(minima.each(|[_, second]| second));
        for j in 0..8 {
            store_ps(&mut panel.minima[j][0], negated(first[j]));
            store_ps(&mut panel.minima[j][1], negated(second[j]));
        }
        for half in 0..2 {
            let columns = transpose(rows.each(|row| load_256(row, 16 + half * 32)));
            for k in 0..8 {
                for j in 0..4 {
                    store_256(&mut panel.quants[half * 4 + j][k], two_bits(columns[k], j));
                }
            }
        }
    }
}

/// 3 bits less 4; 6-bit factors less 32. 32 bytes of third bits, 64 of lower bits, 12 of factors, d.
pub struct Q3K;

/// Four low bits of 16 factors in the nibbles of 8 bytes, two high bits in the pairs of 4 bytes.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn factors_3(w: &[u8; 110]) -> __m128i {
    let packed = load_128(w, 94); // from two bytes earlier: the block ends two bytes later
    let low = _mm_shuffle_epi8(packed, _mm_setr_epi8(2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5, 6, 7, 8, 9));
    let low = _mm_and_si128(_mm_srlv_epi32(low, _mm_setr_epi32(0, 0, 4, 4)), _mm_set1_epi8(15));
    let high = _mm_shuffle_epi8(packed, _mm_set1_epi32(0x0d0c_0b0a));
    let high = _mm_and_si128(_mm_srlv_epi32(high, _mm_setr_epi32(0, 2, 4, 6)), _mm_set1_epi8(3));
    _mm_sub_epi8(_mm_or_si128(low, _mm_slli_epi16::<4>(high)), _mm_set1_epi8(32))
}

/// Bit `j` of each byte as a 4.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn third_bits(high: __m256i, j: usize) -> __m256i {
    let shifted = match j {
        0..2 => _mm256_sll_epi16(high, _mm_cvtsi32_si128(2 - j as i32)),
        _ => _mm256_srl_epi16(high, _mm_cvtsi32_si128(j as i32 - 2)),
    };
    _mm256_and_si256(shifted, _mm256_set1_epi8(4))
}

impl<M: Multiply> Quant<M> for Q3K {
    const FORMAT: Format = Format::Q3K;
    type Group = [u8; 110];
    type Panel = Halves<M, 4, 4>;

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn products(w: &Self::Group, x: &[i8; GROUP], x_sums: __m256i) -> Products {
        let high = load_256(w, 0);
        let mut quants = [_mm256_setzero_si256(); 8];
        for j in 0..8 {
            let low = two_bits(load_256(w, 32 + j / 4 * 32), j % 4);
            quants[j] = _mm256_or_si256(low, third_bits(high, j));
        }
        let factors = factors_3(w);
        let offsets = _mm256_slli_epi32::<2>(_mm256_madd_epi16(_mm256_cvtepi8_epi16(factors), x_sums));
        // SAFETY: the caller promises what `narrow_halves` asks for.
        let halves = unsafe { M::narrow_halves(quants, x) };
        let sums = _mm256_sub_epi32(times_factors(halves, factors), offsets);
        Products { sums: _mm256_cvtepi32_ps(sums), scale: half_at(w, 108), minima: [_mm256_setzero_ps(); 2] }
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn unpack(panel: &mut Self::Panel, rows: [&Self::Group; 8]) {
        unpack_factors(panel, rows.each(|row| factors_3(row)), rows, 108);
        let high = transpose(rows.each(|row| load_256(row, 0)));
        for half in 0..2 {
            let columns = transpose(rows.each(|row| load_256(row, 32 + half * 32)));
            for k in 0..8 {
                for j in 0..4 {
                    let third = third_bits(high[k], half * 4 + j);
                    store_256(&mut panel.quants[half * 4 + j][k], _mm256_or_si256(two_bits(columns[k], j), third));
                }
            }
        }
    }
}

/// 6 bits less 32; 8-bit factors. 128 bytes of lower bits, 64 of upper bits, 16 factors, d.
pub struct Q6K;

/// The four blocks of 32 of a half: 32 bytes of lower bits, the next 32, and 32 of upper bits.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn six_bits(a: __m256i, b: __m256i, upper: __m256i) -> [__m256i; 4] {
    let low = _mm256_set1_epi8(15);
    let high = _mm256_set1_epi8(0x30);
    [
        _mm256_or_si256(_mm256_and_si256(a, low), _mm256_and_si256(_mm256_slli_epi16::<4>(upper), high)),
        _mm256_or_si256(_mm256_and_si256(b, low), _mm256_and_si256(_mm256_slli_epi16::<2>(upper), high)),
        _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16::<4>(a), low), _mm256_and_si256(upper, high)),
        _mm256_or_si256(
            _mm256_and_si256(_mm256_srli_epi16::<4>(b), low),
            _mm256_and_si256(_mm256_srli_epi16::<2>(upper), high),
        ),
    ]
}

impl<M: Multiply> Quant<M> for Q6K {
    const FORMAT: Format = Format::Q6K;
    type Group = [u8; 210];
    type Panel = Halves<M, 2, 32>;

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn products(w: &Self::Group, x: &[i8; GROUP], x_sums: __m256i) -> Products {
        let mut quants = [_mm256_setzero_si256(); 8];
        for half in 0..2 {
            let (a, b) = (load_256(w, half * 64), load_256(w, half * 64 + 32));
            let four = six_bits(a, b, load_256(w, 128 + half * 32));
            for j in 0..4 {
                quants[half * 4 + j] = four[j];
            }
        }
        let factors = load_128(w, 192);
        let offsets = _mm256_slli_epi32::<5>(_mm256_madd_epi16(_mm256_cvtepi8_epi16(factors), x_sums));
        // SAFETY: the caller promises what `middle_halves` asks for.
        let halves = unsafe { M::middle_halves(quants, x) };
        let sums = _mm256_sub_epi32(times_factors(halves, factors), offsets);
        Products { sums: _mm256_cvtepi32_ps(sums), scale: half_at(w, 208), minima: [_mm256_setzero_ps(); 2] }
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn unpack(panel: &mut Self::Panel, rows: [&Self::Group; 8]) {
        unpack_factors(panel, rows.each(|row| load_128(row, 192)), rows, 208);
        for half in 0..2 {
            let a = transpose(rows.each(|row| load_256(row, half * 64)));
            let b = transpose(rows.each(|row| load_256(row, half * 64 + 32)));
            let upper = transpose(rows.each(|row| load_256(row, 128 + half * 32)));
            for k in 0..8 {
                for (j, quants) in six_bits(a[k], b[k], upper[k]).into_iter().enumerate() {
                    store_256(&mut panel.quants[half * 4 + j][k], quants);
                }
            }
        }
    }
}
