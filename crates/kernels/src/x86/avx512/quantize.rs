//! Rounding to 8-bit blocks, the bits those of `lanes::quantize_q8`: one register holds eight levels for two elements, and
//! four blocks are searched side by side, since the sums of one wait for each other.

use std::arch::x86_64::*;

use super::registers::load_ps;
use crate::Q8RowMut;
use crate::activations::Q8_BLOCK;
use crate::lanes::{EXACT, LEVELS};

type Block = [f32; Q8_BLOCK];

/// As `lanes::quantize_q8`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
pub fn quantize_q8(out: Q8RowMut<'_>, x: &[f32]) {
    let Q8RowMut { quants, scales, sums } = out;
    let (blocks, rest) = x.as_chunks::<Q8_BLOCK>();
    assert!(rest.is_empty(), "quantize_q8: {} columns", x.len());
    assert_eq!(quants.len(), x.len(), "quantize_q8: quants");
    assert_eq!(scales.len(), blocks.len(), "quantize_q8: scales");
    assert_eq!(sums.len(), blocks.len() * 2, "quantize_q8: sums");
    let (quants, sums) = (quants.as_chunks_mut::<Q8_BLOCK>().0, sums.as_chunks_mut::<2>().0);
    let (fours, ones) = blocks.as_chunks::<4>();
    for (i, four) in fours.iter().enumerate() {
        let exact = exact_scales(four);
        for b in 0..4 {
            let at = 4 * i + b;
            scales[at] = round(&mut quants[at], &mut sums[at], &four[b], exact[b]);
        }
    }
    for (i, one) in ones.iter().enumerate() {
        let at = 4 * fours.len() + i;
        let [exact] = exact_scales(&[*one]);
        scales[at] = round(&mut quants[at], &mut sums[at], one, exact);
    }
}

/// Rounds a block by its scale, which is not finite if the block is not; returns the scale to be stored.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
fn round(quants: &mut [i8; Q8_BLOCK], sums: &mut [i16; 2], x: &Block, exact: f32) -> f32 {
    let (kept, inverse) = if exact >= f32::MIN_POSITIVE { (exact, 1.0 / exact) } else { (0.0, 0.0) };
    // A block with NaN or an infinity is zeros: whatever its products are becomes NaN by the scale.
    let live = if exact.is_finite() { 0xffff } else { 0 };
    let halves = x.as_chunks::<16>().0.iter().zip(quants.as_chunks_mut::<16>().0);
    for ((half, quants), sum) in halves.zip(sums) {
        let scaled = _mm512_mul_ps(load_ps(half), _mm512_set1_ps(inverse));
        let scaled = _mm512_min_ps(_mm512_max_ps(scaled, _mm512_set1_ps(-127.0)), _mm512_set1_ps(127.0));
        let rounded = _mm512_maskz_cvtps_epi32(live, scaled);
        *sum = _mm512_reduce_add_epi32(rounded) as i16;
        store(quants, _mm512_cvtepi32_epi8(rounded));
    }
    if exact.is_finite() { kept } else { f32::NAN }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store(quants: &mut [i8; 16], register: __m128i) {
    // SAFETY: `quants` is 16 writable bytes, and the instruction takes any alignment.
    unsafe { _mm_storeu_si128(quants.as_mut_ptr().cast(), register) }
}

/// The largest magnitude of each block divided by its best level, as `lanes` finds it.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
fn exact_scales<const N: usize>(blocks: &[Block; N]) -> [f32; N] {
    let mut levels = [0.0; 16];
    levels[..8].copy_from_slice(&LEVELS);
    levels[8..].copy_from_slice(&LEVELS);
    let mut largest = [0.0; N];
    let mut inverses = [_mm512_setzero_ps(); N];
    for b in 0..N {
        let [low, high] = [&blocks[b].as_chunks::<16>().0[0], &blocks[b].as_chunks::<16>().0[1]];
        // As integers, magnitudes keep their order and NaN is above infinity.
        let low = _mm512_castps_si512(_mm512_abs_ps(load_ps(low)));
        let high = _mm512_castps_si512(_mm512_abs_ps(load_ps(high)));
        largest[b] = f32::from_bits(_mm512_reduce_max_epu32(_mm512_max_epu32(low, high)));
        inverses[b] = _mm512_div_ps(load_ps(&levels), _mm512_set1_ps(largest[b]));
    }
    // The errors of the eight levels, those of even elements in the lower lanes.
    let mut squares = [_mm512_setzero_ps(); N];
    for i in 0..Q8_BLOCK / 2 {
        for b in 0..N {
            let (even, odd) = (_mm512_set1_ps(blocks[b][2 * i]), _mm512_set1_ps(blocks[b][2 * i + 1]));
            let scaled = _mm512_mul_ps(_mm512_mask_mov_ps(even, 0xff00, odd), inverses[b]);
            // Ties to even, as adding and subtracting 1.5 * 2^23 rounds.
            let off = _mm512_sub_ps(scaled, _mm512_roundscale_ps::<0>(scaled));
            squares[b] = _mm512_add_ps(squares[b], _mm512_mul_ps(off, off));
        }
    }
    let mut weights = [0.0; 16];
    for (weight, level) in weights.iter_mut().zip(LEVELS) {
        *weight = (LEVELS[0] / level) * (LEVELS[0] / level);
    }
    let mut exact = [0.0; N];
    for b in 0..N {
        let errors = _mm256_add_ps(_mm512_castps512_ps256(squares[b]), _mm512_extractf32x8_ps::<1>(squares[b]));
        let mut best = LEVELS[0];
        // Also false where the error is NaN: blocks of zeros, infinities or NaN.
        if _mm256_cvtss_f32(errors) > EXACT {
            let errors = _mm512_mul_ps(_mm512_castps256_ps512(errors), load_ps(&weights));
            // The first of the least.
            let least = _mm512_set1_ps(_mm512_mask_reduce_min_ps(0xff, errors));
            let first = _mm512_mask_cmp_ps_mask::<_CMP_EQ_OQ>(0xff, errors, least).trailing_zeros();
            best = LEVELS[first as usize % LEVELS.len()];
        }
        exact[b] = largest[b] / best;
    }
    exact
}
