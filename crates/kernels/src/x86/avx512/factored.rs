//! Four weight rows of formats whose halves of blocks have factors: sums of 8 products fit words, and factors
//! are applied where words are added in pairs, so that few sums are left to fold. Lanes are those of `row`.

use std::arch::x86_64::*;

use super::input::{Input, in_order, reordered};
use super::registers::load_quants;
use super::row::Row;
use crate::array::Each;
use crate::weights::Minima;
use crate::x86::avx2::format::GROUP;
use crate::x86::avx2::panel::Panel;

/// Adds eight blocks of four rows to the lanes of each input: of the first two rows and of the last two.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub fn four<'a, R: Row>(
    lanes: &mut [[__m512; 2]],
    w: [&R::Group; 4],
    x: impl Fn(usize) -> &'a Input,
    multiples: [u8; 4],
) {
    let (some, fits) = (R::Panel::OFFSET != 0, fits::<R>(multiples));
    // SAFETY: this function has the features that all three ask for.
    let (factors, of_rows) = unsafe { (R::factors_of_four(w), R::scales_minima(w)) };
    let mut weights = [[_mm512_setzero_si512(); 4]; 4];
    for r in 0..4 {
        // SAFETY: as above.
        weights[r] = unsafe { R::strips(w[r]) };
    }
    let first = first_words();
    let second = _mm512_add_epi16(first, _mm512_set1_epi16(1));
    for (t, lanes) in lanes.iter_mut().enumerate() {
        let x = x(t);
        let mut words = [_mm512_setzero_si512(); 4];
        for r in 0..4 {
            let mut fours = if some && !fits { x.starts } else { [_mm512_setzero_si512(); 4] };
            for j in 0..4 {
                fours[j] = _mm512_dpbusd_epi32(fours[j], weights[r][j], load_quants(&x.quants, j * 64));
            }
            let ones = _mm512_set1_epi16(1);
            let [a, b, c, d] = fours;
            let eights =
                [_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d)].each(|words| _mm512_madd_epi16(words, ones));
            // Quarter `2 * H + h`: two sums each of half `h` of blocks `4 * H + j`.
            words[r] = _mm512_packs_epi32(eights[0], eights[1]);
        }
        for i in 0..2 {
            let (a, b) = (words[2 * i], words[2 * i + 1]);
            let (first, second) = (_mm512_permutex2var_epi16(a, first, b), _mm512_permutex2var_epi16(a, second, b));
            let first = if some && fits { _mm512_add_epi16(first, x.offsets) } else { first };
            let blocks = _mm512_dpwssd_epi32(_mm512_madd_epi16(first, factors[i]), second, factors[i]);
            let (scale, minima) = of_rows[i];
            let scaled = _mm512_mul_ps(_mm512_cvtepi32_ps(blocks), scale);
            lanes[i] = _mm512_fmadd_ps(scaled, x.scales, lanes[i]);
            if let Minima::Halves = R::Panel::MINIMA {
                for (minima, sums) in minima.into_iter().zip(x.minima) {
                    lanes[i] = _mm512_fnmadd_ps(minima, sums, lanes[i]);
                }
            }
        }
    }
}

/// Of both halves of each block of two rows, where the first of their two sums is.
#[inline]
#[target_feature(enable = "avx512f")]
fn first_words() -> __m512i {
    let mut words = [0; 16];
    for (lane, words) in words.iter_mut().enumerate() {
        let at = lane / 8 * 32 + lane / 4 % 2 * 16 + lane % 4 * 2;
        *words = (at | (at + 8) << 16) as i32;
    }
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = words;
    _mm512_setr_epi32(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)
}

/// Whether sums of 8 products fit words together with the offset of 16 columns. Weights are less than twice their offset.
fn fits<R: Row>(multiples: [u8; 4]) -> bool {
    let offset = i32::from(R::Panel::OFFSET) * multiples.each(i32::from).into_iter().max().expect("four");
    offset * 32 * 127 <= i16::MAX.into()
}

/// Activations in the order of [`Row::strips`]; offsets are to be added, where they fit words, and are in `starts` where not.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub fn input<R: Row>(quants: &[i8; GROUP], scales: &[f32; 8], sums: &[i16; 16], multiples: [u8; 4]) -> Input {
    // Half `h` of block `4 * H + j` is quarter `2 * H + h` of register `j`.
    let quants = reordered(quants, |i| (i % 4 / 2 * 4 + i / 4) * 2 + i % 2);
    let mut starts = [_mm512_setzero_si512(); 4];
    for j in 0..4 {
        let offset = _mm512_set1_epi8((R::Panel::OFFSET as u8 * multiples[j]) as i8);
        let sums = _mm512_dpbusd_epi32(_mm512_setzero_si512(), offset, load_quants(&quants, j * 64));
        starts[j] = _mm512_sub_epi32(_mm512_setzero_si512(), sums);
    }
    // Of both halves of a block, as words.
    let [a, b, c, d] = multiples.each(|multiple| {
        let negated = (-R::Panel::OFFSET * i16::from(multiple)) as u16;
        (u32::from(negated) * 0x1_0001) as i32
    });
    let plain = in_order::<R>(&quants, scales, sums);
    let offsets = _mm512_mullo_epi16(plain.offsets, _mm512_broadcast_i32x4(_mm_setr_epi32(a, b, c, d)));
    Input { offsets, starts, ..plain }
}

/// 32 signed bytes of two rows each, as words.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub fn words_of_four(bytes: __m512i) -> [__m512i; 2] {
    [_mm512_castsi512_si256(bytes), _mm512_extracti64x4_epi64::<1>(bytes)].each(|bytes| _mm512_cvtepi8_epi16(bytes))
}

/// Numbers of four rows in all blocks of two of them each, divided as the weights of [`Row::strips`] are multiplied.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub fn of_rows(rows: __m128, multiples: [u8; 4]) -> [__m512; 2] {
    let [a, b, c, d] = multiples.each(|multiple| 1.0 / f32::from(multiple));
    let all = _mm512_setr_ps(a, a, a, a, b, b, b, b, c, c, c, c, d, d, d, d);
    let all = _mm512_mul_ps(_mm512_broadcast_f32x4(rows), all);
    let first = _mm512_setr_epi32(0, 4, 8, 12, 0, 4, 8, 12, 1, 5, 9, 13, 1, 5, 9, 13);
    [first, _mm512_add_epi32(first, _mm512_set1_epi32(2))].each(|order| _mm512_permutexvar_ps(order, all))
}
