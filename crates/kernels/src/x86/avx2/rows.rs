//! One input row: weights are read once, in the file's layout, as fast as memory gives them. Lane = block.

use std::arch::x86_64::*;

use super::fold::tree;
use super::format::{GROUP, Group, Quant};
use super::multiply::Multiply;
use super::panel::Panel;
use super::registers::{load_i16, load_ps};
use crate::Q8Row;
use crate::array::Each;
use crate::order::SEGMENT;
use crate::weights::{Minima, row};
use crate::x86::ahead::{Ahead, ROWS};

const SEGMENT_GROUPS: usize = SEGMENT / GROUP;

/// `out[o] = w[o] . x`.
///
/// Rows of the two halves of `w` alternate: two streams from memory are faster than one.
///
/// # Safety
/// The processor has AVX2, FMA and F16C, and the products of `M`.
#[target_feature(enable = "avx2,fma,f16c")]
pub unsafe fn rows<M: Multiply, Q: Quant<M>>(out: &mut [f32], w: &[u8], row_bytes: usize, x: Q8Row<'_>) {
    let ahead = Ahead::new(ROWS);
    let half = out.len() / 2;
    for o in 0..half {
        let [a, b] = dot::<M, Q, 2>([row(w, row_bytes, o), row(w, row_bytes, o + half)], x, ahead);
        out[o] = a;
        out[o + half] = b;
    }
    if half * 2 < out.len() {
        let [a] = dot::<M, Q, 1>([row(w, row_bytes, half * 2)], x, ahead);
        out[half * 2] = a;
    }
}

/// `R` rows times one input.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn dot<M: Multiply, Q: Quant<M>, const R: usize>(rows: [&[u8]; R], x: Q8Row<'_>, ahead: Ahead) -> [f32; R] {
    let (quants, quants_rest) = x.quants.as_chunks::<GROUP>();
    let (scales, scales_rest) = x.scales.as_chunks::<8>();
    let (sums, sums_rest) = x.sums.as_chunks::<16>();
    let whole = quants.len();
    let count = whole + usize::from(!quants_rest.is_empty());
    let rows = rows.each(Q::Group::split);
    let mut groups: [&[Q::Group]; R] = [&[]; R];
    for r in 0..R {
        groups[r] = &rows[r].0[..whole];
    }
    let mut totals = [0.0; R];
    for start in (0..count).step_by(SEGMENT_GROUPS) {
        let end = count.min(start + SEGMENT_GROUPS);
        let mut lanes = [_mm256_setzero_ps(); R];
        for g in start..end.min(whole) {
            for r in 0..R {
                ahead.fetch(&groups[r][g]);
                lanes[r] = step::<M, Q>(lanes[r], &groups[r][g], &quants[g], &scales[g], &sums[g]);
            }
        }
        if end > whole {
            let blocks = scales_rest.len();
            let live = _mm256_cmpgt_epi32(_mm256_set1_epi32(blocks as i32), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
            let (quants, scales, sums) = (padded(quants_rest), padded(scales_rest), padded(sums_rest));
            for r in 0..R {
                let mut group = Q::Group::PADDING;
                group.bytes()[..rows[r].1.len()].copy_from_slice(rows[r].1);
                let next = step::<M, Q>(lanes[r], &group, &quants, &scales, &sums);
                lanes[r] = _mm256_blendv_ps(lanes[r], next, _mm256_castsi256_ps(live));
            }
        }
        for r in 0..R {
            let sum = tree(lanes[r]);
            totals[r] = if start == 0 { sum } else { totals[r] + sum };
        }
    }
    totals
}

/// The end of a row and zeros.
pub fn padded<T: Copy + Default, const N: usize>(rest: &[T]) -> [T; N] {
    let mut group = [T::default(); N];
    group[..rest.len()].copy_from_slice(rest);
    group
}

/// Adds eight blocks to eight lanes.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn step<M: Multiply, Q: Quant<M>>(
    lanes: __m256,
    w: &Q::Group,
    quants: &[i8; GROUP],
    scales: &[f32; 8],
    sums: &[i16; 16],
) -> __m256 {
    let (scales, sums) = (load_ps(scales), load_i16(sums));
    // SAFETY: the caller of `rows` promises the products of `M`, and this function has the other features.
    let products = unsafe { Q::products(w, quants, sums) };
    let scaled = _mm256_mul_ps(products.sums, products.scale);
    let lanes = _mm256_fmadd_ps(scaled, scales, lanes);
    match Q::Panel::MINIMA {
        Minima::None => lanes,
        Minima::Whole => _mm256_fnmadd_ps(products.minima[0], whole_sums(scales, sums), lanes),
        Minima::Halves => {
            let [first, second] = half_sums(scales, sums);
            let lanes = _mm256_fnmadd_ps(products.minima[0], first, lanes);
            _mm256_fnmadd_ps(products.minima[1], second, lanes)
        }
    }
}

/// Scales of eight blocks of activations times their sums.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn whole_sums(scales: __m256, sums: __m256i) -> __m256 {
    let sums = _mm256_madd_epi16(sums, _mm256_set1_epi16(1));
    _mm256_mul_ps(scales, _mm256_cvtepi32_ps(sums))
}

/// Scales of eight blocks of activations times the sums of their first and of their second halves.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn half_sums(scales: __m256, sums: __m256i) -> [__m256; 2] {
    let first = _mm256_srai_epi32::<16>(_mm256_slli_epi32::<16>(sums));
    let second = _mm256_srai_epi32::<16>(sums);
    [_mm256_mul_ps(scales, _mm256_cvtepi32_ps(first)), _mm256_mul_ps(scales, _mm256_cvtepi32_ps(second))]
}
