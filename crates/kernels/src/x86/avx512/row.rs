//! Few input rows: weight rows are read and unpacked once in the file's layout, four rows for all inputs (nibbles, Q4_K and formats of
//! 5 bits as `quarters` has them, Q2_K, Q3_K and Q6_K as `factored` does). Here two of the others lie side by side in a register:
//! the lower eight lanes belong to the first row, the upper eight to the second, lane = block.
//!
//! Blocks are summed in the order of `crate::order`, so the bits are those of every other table.

use std::arch::asm;
use std::arch::x86_64::*;

use super::input::{Input, with_inputs};
use super::registers::{load_quants, store_ps};
use super::row_scales::{ScalesMinima, without_minima};
use super::{factored, quarters};
use crate::array::Each;
use crate::order::SEGMENT;
use crate::weights::row;
use crate::x86::ahead::{Ahead, ROWS};
use crate::x86::avx2::format::{GROUP, Group, Quant};
use crate::x86::avx2::panel::Panel;
use crate::{OutTile, Q8Row};

pub const SEGMENT_GROUPS: usize = SEGMENT / GROUP;

/// A format whose rows can be taken as they lie in the file.
///
/// Stable Rust has no safe trait methods with target features, hence the `unsafe`.
pub trait Row: Quant {
    /// One input meets rows in registers of 512 bits; otherwise by AVX2's rows, whose bits are the same.
    const WIDE: bool = true;
    /// Bits of a weight, if inputs meet four rows as [`quarters`](Row::quarters) has them.
    const QUARTERS: Option<u32> = None;
    /// If inputs meet four rows as [`strips`](Row::strips) has them, what the weights of blocks `j` and `j + 4` are multiplied by.
    const STRIPS: Option<[u8; 4]> = None;

    /// 256 weights in order, not yet reduced by the panel's `OFFSET`, if the panel has no `NIBBLES`.
    ///
    /// # Safety
    /// The processor has AVX-512 F, BW, VL, DQ and VNNI.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
    unsafe fn quants(_: &Self::Group) -> [__m512i; 4] {
        [_mm512_setzero_si512(); 4]
    }

    /// 256 weights as nibbles, if the panel has `NIBBLES`: 32 bytes for two blocks, the first one's weights low.
    ///
    /// # Safety
    /// As `quants`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
    unsafe fn nibbles(_: &Self::Group) -> [__m512i; 2] {
        [_mm512_setzero_si512(); 2]
    }

    /// 256 weights, not yet reduced, if there are `QUARTERS`: `[e][h]` has half `h` of block `2 * q + e` in its quarter `q`.
    ///
    /// # Safety
    /// As `quants`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
    unsafe fn quarters(_: &Self::Group) -> [[__m512i; 2]; 2] {
        [[_mm512_setzero_si512(); 2]; 2]
    }

    /// Whole factors of blocks that 4-bit `QUARTERS` have beside their scales, each twice as a word: of the first two of four
    /// rows and of the last two.
    ///
    /// # Safety
    /// As `quants`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
    unsafe fn quarter_factors(_: [&Self::Group; 4]) -> [__m512i; 2] {
        [_mm512_set1_epi16(1); 2]
    }

    /// 256 weights, not yet reduced, if there are `STRIPS`: `[j]` has block `j` in its lower half and block `j + 4` in its
    /// upper one, each weight multiplied by `STRIPS[j]`. Less the offset, which is multiplied, too, eight of them times 127
    /// fit a word.
    ///
    /// # Safety
    /// As `quants`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
    unsafe fn strips(_: &Self::Group) -> [__m512i; 4] {
        [_mm512_setzero_si512(); 4]
    }

    /// What the sums of eight blocks of both rows are to be multiplied with.
    ///
    /// # Safety
    /// As `quants`.
    unsafe fn scales(w: [&Self::Group; 2]) -> __m512;

    /// What times the activations' sums is to be subtracted: as many as the panel's `MINIMA` says.
    ///
    /// # Safety
    /// As `quants`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
    unsafe fn minima(_: [&Self::Group; 2]) -> [__m512; 2] {
        [_mm512_setzero_ps(); 2]
    }

    /// Scales, and minima that are to be subtracted, of the first two of four rows and of the last two, if there are `QUARTERS` or
    /// `STRIPS`: in the order of [`super::quarters`], and divided by `STRIPS`.
    ///
    /// # Safety
    /// As `quants`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
    unsafe fn scales_minima(_: [&Self::Group; 4]) -> [ScalesMinima; 2] {
        without_minima([_mm512_setzero_ps(); 2])
    }

    /// The factors of the 16 halves, if the panel has `HALVES`.
    ///
    /// # Safety
    /// As `quants`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
    unsafe fn factors(_: &Self::Group) -> __m128i {
        _mm_setzero_si128()
    }

    /// The same of the first two of four rows, and of the last two, as words, if there are `STRIPS`.
    ///
    /// # Safety
    /// As `quants`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
    unsafe fn factors_of_four(_: [&Self::Group; 4]) -> [__m512i; 2] {
        [_mm512_setzero_si512(); 2]
    }

    /// What bytes of `factors` stand for: signed bytes, if the panel has no `FLOATS`.
    ///
    /// # Safety
    /// As `quants`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
    unsafe fn floats(factors: __m128i) -> __m512 {
        _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(factors))
    }
}

/// `out[t * stride + o] = w[o] . x[t]` for `outputs` weight rows and up to `MOST` inputs.
///
/// Rows of the four quarters of `w` go together: four streams from memory are faster than two.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub fn rows<R: Row, const MOST: usize>(
    out: &mut OutTile<'_>,
    outputs: usize,
    (w, row_bytes): (&[u8], usize),
    x: &[Q8Row<'_>],
) {
    let (blocks, count) = (x[0].scales.len(), x.len());
    with_inputs::<R, MOST>(x, |x| {
        let ahead = Ahead::new(ROWS);
        let (quarter, stride, out) = (outputs / 4, out.stride, &mut *out.values);
        for o in 0..quarter {
            let mut rows = [w; 4];
            for i in 0..4 {
                rows[i] = row(w, row_bytes, i * quarter + o);
            }
            let sums = dot::<R, MOST>(rows, (&x, count), blocks, ahead);
            for t in 0..count {
                for i in 0..4 {
                    out[t * stride + i * quarter + o] = sums[t][i];
                }
            }
        }
        let rest = quarter * 4..outputs;
        if !rest.is_empty() {
            let rows = [0, 1, 2, 3].each(|i| row(w, row_bytes, (rest.start + i).min(outputs - 1)));
            let sums = dot::<R, MOST>(rows, (&x, count), blocks, ahead);
            for t in 0..count {
                out[t * stride..][rest.clone()].copy_from_slice(&sums[t][..rest.len()]);
            }
        }
    });
}

/// Four rows of as many blocks times each of `inputs`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn dot<R: Row, const MOST: usize>(
    rows: [&[u8]; 4],
    (x, inputs): (&[&[Input]; MOST], usize),
    blocks: usize,
    ahead: Ahead,
) -> [[f32; 4]; MOST] {
    let (whole, count) = (blocks / 8, x[0].len());
    // All are as long: said once, not checked for each.
    let mut x_whole = *x;
    for t in 0..inputs {
        x_whole[t] = &x[t][..whole];
    }
    let mut groups: [&[R::Group]; 4] = [&[]; 4];
    let mut rests = rows;
    for r in 0..4 {
        let (whole_ones, rest) = R::Group::split(rows[r]);
        (groups[r], rests[r]) = (&whole_ones[..whole], rest);
    }
    let mut totals = [_mm512_setzero_ps(); MOST];
    for start in (0..count).step_by(SEGMENT_GROUPS) {
        let end = count.min(start + SEGMENT_GROUPS);
        let mut lanes = [[_mm512_setzero_ps(); 2]; MOST];
        for g in start..end.min(whole) {
            let w = [&groups[0][g], &groups[1][g], &groups[2][g], &groups[3][g]];
            for w in w {
                ahead.fetch(w);
            }
            four::<R>(&mut lanes[..inputs], w, |t| &x_whole[t][g]);
        }
        if end > whole {
            let live = (1u16 << (blocks % 8)) - 1;
            let live = if R::QUARTERS.is_some() { quarters::lanes(live) } else { live | live << 8 };
            let mut ends = [R::Group::PADDING; 4];
            for (end, rest) in ends.iter_mut().zip(rests) {
                end.bytes()[..rest.len()].copy_from_slice(rest);
            }
            let mut next = lanes;
            four::<R>(&mut next[..inputs], ends.each_ref(), |t| &x[t][whole]);
            for (lanes, next) in lanes.as_flattened_mut().iter_mut().zip(next.as_flattened()) {
                *lanes = _mm512_mask_mov_ps(*lanes, live, *next);
            }
        }
        for t in 0..inputs {
            let sums = if R::QUARTERS.is_some() { quarters::trees(lanes[t]) } else { trees(lanes[t]) };
            totals[t] = if start == 0 { sums } else { _mm512_add_ps(totals[t], sums) };
        }
    }
    let of_rows = if R::QUARTERS.is_some() { quarters::OF_ROWS } else { [0, 4, 8, 12] };
    let mut sums = [[0.0; 4]; MOST];
    for t in 0..inputs {
        let mut all = [0.0; 16];
        store_ps(&mut all, totals[t]);
        sums[t] = of_rows.each(|lane| all[lane]);
    }
    sums
}

/// Sums of four rows' eight lanes in the order of `fold::tree`, each in a quarter of its own.
#[inline]
#[target_feature(enable = "avx512f")]
fn trees([a, b]: [__m512; 2]) -> __m512 {
    let fours = _mm512_add_ps(_mm512_shuffle_f32x4::<0b10_00_10_00>(a, b), _mm512_shuffle_f32x4::<0b11_01_11_01>(a, b));
    let twos = _mm512_add_ps(fours, _mm512_permute_ps::<0b01_00_11_10>(fours));
    _mm512_add_ps(twos, _mm512_permute_ps::<0b10_11_00_01>(twos))
}

/// Adds eight blocks of four rows to the lanes of each input: of the first two rows and of the last two.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn four<'a, R: Row>(lanes: &mut [[__m512; 2]], w: [&R::Group; 4], x: impl Fn(usize) -> &'a Input) {
    // Constants, so that a format compiles no way but its own.
    if const { R::QUARTERS.is_some() }
        && let Some(bits) = R::QUARTERS
    {
        return quarters::four::<R>(lanes, w, x, bits);
    }
    if const { R::STRIPS.is_some() }
        && let Some(multiples) = R::STRIPS
    {
        return factored::four::<R>(lanes, w, x, multiples);
    }
    if const { R::QUARTERS.is_none() && R::STRIPS.is_none() } {
        two_and_two::<R>(lanes, w, x);
    }
}

/// The same, two rows and then the other two.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn two_and_two<'a, R: Row>(lanes: &mut [[__m512; 2]], w: [&R::Group; 4], x: impl Fn(usize) -> &'a Input) {
    for (i, w) in [[w[0], w[1]], [w[2], w[3]]].into_iter().enumerate() {
        // SAFETY: this function has the features that both ask for.
        let (quants, scales) = unsafe { ([R::quants(w[0]), R::quants(w[1])], R::scales(w)) };
        for (t, lanes) in lanes.iter_mut().enumerate() {
            let x = x(t);
            let scaled = _mm512_mul_ps(products::<R>(w, &quants, x), scales);
            lanes[i] = _mm512_fmadd_ps(scaled, x.scales, lanes[i]);
        }
    }
}

/// Sums of the products of eight blocks, factors of halves applied and offsets removed, exact until they are rounded once.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn products<R: Row>(w: [&R::Group; 2], quants: &[[__m512i; 4]; 2], x: &Input) -> __m512 {
    let mut quads = [[_mm512_setzero_si512(); 4]; 2];
    for (quads, quants) in quads.iter_mut().zip(quants) {
        for i in 0..4 {
            quads[i] = _mm512_dpbusd_epi32(_mm512_setzero_si512(), quants[i], load_quants(&x.quants, i * 64));
        }
    }
    let order = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    let mut halves = [_mm512_setzero_si512(); 2];
    for ((halves, quads), w) in halves.iter_mut().zip(side_by_side(quads)).zip(w) {
        *halves = fold(quads);
        if R::Panel::FLOATS {
            let offset = _mm512_mullo_epi32(
                _mm512_cvtepi16_epi32(_mm512_castsi512_si256(x.offsets)),
                _mm512_set1_epi32(R::Panel::OFFSET.into()),
            );
            let sums = _mm512_sub_epi32(*halves, _mm512_permutexvar_epi32(_mm512_cvtepi8_epi32(order), offset));
            // SAFETY: this function has the features that both ask for.
            let factors = unsafe { R::floats(_mm_shuffle_epi8(R::factors(w), order)) };
            *halves = _mm512_castps_si512(_mm512_mul_ps(_mm512_cvtepi32_ps(sums), factors));
        } else if R::Panel::HALVES {
            // SAFETY: as above.
            let factors = unsafe { R::factors(w) };
            let factors = _mm512_cvtepi8_epi32(_mm_shuffle_epi8(factors, order));
            *halves = _mm512_mullo_epi32(*halves, factors);
        }
    }
    let [a, b] = halves;
    let first = _mm512_setr_epi32(0, 8, 1, 9, 2, 10, 3, 11, 16, 24, 17, 25, 18, 26, 19, 27);
    let second = _mm512_add_epi32(first, _mm512_set1_epi32(4));
    let (first, second) = (_mm512_permutex2var_epi32(a, first, b), _mm512_permutex2var_epi32(a, second, b));
    if R::Panel::FLOATS {
        return _mm512_add_ps(_mm512_castsi512_ps(first), _mm512_castsi512_ps(second));
    }
    let blocks = _mm512_add_epi32(first, second);
    if R::Panel::OFFSET == 0 {
        return _mm512_cvtepi32_ps(blocks);
    }
    let offset = _mm512_set1_epi16(-R::Panel::OFFSET);
    if R::Panel::HALVES {
        // SAFETY: as above.
        let [a, b] = w.each(|w| unsafe { R::factors(w) });
        let factors = _mm512_cvtepi8_epi16(_mm256_set_m128i(b, a));
        let offsets = _mm512_madd_epi16(_mm512_mullo_epi16(factors, offset), x.offsets);
        return _mm512_cvtepi32_ps(_mm512_add_epi32(blocks, offsets));
    }
    _mm512_cvtepi32_ps(_mm512_add_epi32(blocks, _mm512_madd_epi16(x.offsets, offset)))
}

/// The registers themselves. The compiler has to make all of them before it goes on: it would make and fold them one after
/// the other, in chains that wait for each other.
#[inline]
#[target_feature(enable = "avx512f")]
fn side_by_side([[mut a, mut b, mut c, mut d], [mut e, mut f, mut g, mut h]]: [[__m512i; 4]; 2]) -> [[__m512i; 4]; 2] {
    // SAFETY: no instruction is emitted.
    unsafe {
        asm!(
            "/* {0} {1} {2} {3} {4} {5} {6} {7} */",
            inout(zmm_reg) a, inout(zmm_reg) b, inout(zmm_reg) c, inout(zmm_reg) d,
            inout(zmm_reg) e, inout(zmm_reg) f, inout(zmm_reg) g, inout(zmm_reg) h,
            options(nomem, nostack, preserves_flags),
        );
    }
    [[a, b, c, d], [e, f, g, h]]
}

/// Adds fours: lane `4 * l + i` = sum of the quarter `l` of register `i`, that is half `l % 2` of block `2 * i + l / 2`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn fold([a, b, c, d]: [__m512i; 4]) -> __m512i {
    let ab = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    let cd = _mm512_add_epi32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
    _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub fn both([a, b]: [__m256; 2]) -> __m512 {
    _mm512_insertf32x8::<1>(_mm512_castps256_ps512(a), b)
}
