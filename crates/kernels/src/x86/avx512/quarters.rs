//! Four weight rows, two blocks in each quarter of a register: both halves of a block add to the same lanes, so that
//! there are half as many sums to fold as in `row`, which is what counts where decoding waits for instructions. Lane `4 * q + 2 * r + e` of
//! two rows' sums belongs to block `2 * q + e` of row `r`.

use std::arch::x86_64::*;

use super::input::{Input, reordered};
use super::registers::load_quants;
use super::row::Row;
use crate::weights::Minima;
use crate::x86::avx2::format::GROUP;
use crate::x86::avx2::panel::Panel;
use crate::x86::avx2::registers::{load_i16, load_ps};
use crate::x86::avx2::rows::whole_sums;

/// The lanes in which [`trees`] leaves each row's sum.
pub const OF_ROWS: [usize; 4] = [0, 2, 8, 10];

/// Quarters 0 and 2 of two registers, and quarters 1 and 3.
const EVEN: i32 = 0b10_00_10_00;
const ODD: i32 = 0b11_01_11_01;

/// Adds eight blocks of four rows of weights of `bits` to the lanes of each input: of the first two rows and of the last two.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub fn four<'a, R: Row>(lanes: &mut [[__m512; 2]], w: [&R::Group; 4], x: impl Fn(usize) -> &'a Input, bits: u32) {
    // SAFETY: this function has the features that all three ask for.
    let (factors, of_rows) = unsafe { (R::quarter_factors(w), R::scales_minima(w)) };
    let mut weights = [[[_mm512_setzero_si512(); 2]; 2]; 4];
    for r in 0..4 {
        // SAFETY: as above.
        weights[r] = unsafe { R::quarters(w[r]) };
    }
    for (t, lanes) in lanes.iter_mut().enumerate() {
        let x = x(t);
        // In each quarter of each row two sums of 16 products of one block, then two of the other.
        let mut sixteens = [_mm512_setzero_si512(); 4];
        for r in 0..4 {
            let mut eights = [_mm512_setzero_si512(); 2];
            for e in 0..2 {
                for h in 0..2 {
                    let quants = load_quants(&x.quants, (2 * e + h) * 64);
                    eights[e] = _mm512_dpbusd_epi32(eights[e], weights[r][e][h], quants);
                }
            }
            sixteens[r] = add_pairs(eights, 8, bits, _mm512_set1_epi16(1));
        }
        for i in 0..2 {
            let mut blocks = add_pairs([sixteens[2 * i], sixteens[2 * i + 1]], 16, bits, factors[i]);
            if R::Panel::OFFSET != 0 {
                blocks = _mm512_add_epi32(blocks, x.offsets);
            }
            let (scale, [minima, _]) = of_rows[i];
            let scaled = _mm512_mul_ps(_mm512_cvtepi32_ps(blocks), scale);
            lanes[i] = _mm512_fmadd_ps(scaled, x.scales, lanes[i]);
            if let Minima::Whole = R::Panel::MINIMA {
                lanes[i] = _mm512_fnmadd_ps(minima, x.minima[0], lanes[i]);
            }
        }
    }
}

/// Adds pairs of neighbours, each a sum of `count` products of weights of `bits`: in each quarter two sums of the first register, then
/// two of the second. Words, which sums of 4 bits fit, meet `factors` on the way.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn add_pairs([a, b]: [__m512i; 2], count: i32, bits: u32, factors: __m512i) -> __m512i {
    if count * ((1 << bits) - 1) * 127 <= i16::MAX.into() {
        return _mm512_madd_epi16(_mm512_packs_epi32(a, b), factors);
    }
    let (a, b) = (_mm512_castsi512_ps(a), _mm512_castsi512_ps(b));
    let (even, odd) = (_mm512_shuffle_ps::<EVEN>(a, b), _mm512_shuffle_ps::<ODD>(a, b));
    _mm512_add_epi32(_mm512_castps_si512(even), _mm512_castps_si512(odd))
}

/// Activations in the order of [`Row::quarters`]; offsets are to be added.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub fn input<R: Row>(quants: &[i8; GROUP], scales: &[f32; 8], sums: &[i16; 16]) -> Input {
    let (scales, sums) = (load_ps(scales), load_i16(sums));
    let offsets = _mm256_madd_epi16(sums, _mm256_set1_epi16(-R::Panel::OFFSET));
    Input {
        // Quarter `q` of register `2 * e + h`.
        quants: reordered(quants, |i| (i % 4 * 2 + i / 8) * 2 + i / 4 % 2),
        scales: of_both_rows(scales),
        offsets: _mm512_castps_si512(of_both_rows(_mm256_castsi256_ps(offsets))),
        minima: [of_both_rows(whole_sums(scales, sums)); 2],
        starts: [_mm512_setzero_si512(); 4],
    }
}

/// The even quarters of both registers, and the odd ones.
#[inline]
#[target_feature(enable = "avx512f")]
pub fn halves(a: __m512i, b: __m512i) -> [__m512i; 2] {
    [_mm512_shuffle_i32x4::<EVEN>(a, b), _mm512_shuffle_i32x4::<ODD>(a, b)]
}

/// What belongs to blocks of the activations, as lanes of two rows.
#[inline]
#[target_feature(enable = "avx512f")]
fn of_both_rows(blocks: __m256) -> __m512 {
    let order = _mm512_setr_epi64(0, 0, 1, 1, 2, 2, 3, 3);
    _mm512_castpd_ps(_mm512_permutexvar_pd(order, _mm512_castps_pd(_mm512_castps256_ps512(blocks))))
}

/// Two rows' blocks, eight lanes each, as lanes of two rows.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub fn of_rows([a, b]: [__m256; 2]) -> __m512 {
    let order = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
    let both = _mm512_insertf32x8::<1>(_mm512_castps256_ps512(a), b);
    _mm512_castpd_ps(_mm512_permutexvar_pd(order, _mm512_castps_pd(both)))
}

/// Sums of four rows' lanes in the order of `crate::order::tree`, in the lanes [`OF_ROWS`].
#[inline]
#[target_feature(enable = "avx512f")]
pub fn trees([a, b]: [__m512; 2]) -> __m512 {
    let twos = _mm512_add_ps(_mm512_shuffle_f32x4::<0b01_00_01_00>(a, b), _mm512_shuffle_f32x4::<0b11_10_11_10>(a, b));
    let fours = _mm512_add_ps(twos, _mm512_shuffle_f32x4::<0b10_11_00_01>(twos, twos));
    _mm512_add_ps(fours, _mm512_permute_ps::<0b10_11_00_01>(fours))
}

/// The lanes of both rows that blocks with a bit of `blocks` add to.
pub fn lanes(blocks: u16) -> u16 {
    (0..4).map(|q| ((blocks >> (2 * q) & 3) * 0b101) << (4 * q)).sum()
}
