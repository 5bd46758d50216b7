//! Rounding to 8-bit blocks, the bits those of `lanes::quantize_q8`: one register holds eight levels for two elements.

use std::arch::x86_64::*;

use super::registers::load_ps;
use crate::Q8RowMut;
use crate::activations::Q8_BLOCK;
use crate::lanes::{EXACT, LEVELS};

/// As `lanes::quantize_q8`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
pub fn quantize_q8(out: Q8RowMut<'_>, x: &[f32]) {
    let Q8RowMut { quants, scales, sums } = out;
    let (blocks, rest) = x.as_chunks::<Q8_BLOCK>();
    assert!(rest.is_empty(), "quantize_q8: {} columns", x.len());
    assert_eq!(quants.len(), x.len(), "quantize_q8: quants");
    assert_eq!(scales.len(), blocks.len(), "quantize_q8: scales");
    assert_eq!(sums.len(), blocks.len() * 2, "quantize_q8: sums");
    let quants = quants.as_chunks_mut::<16>().0.as_chunks_mut::<2>().0;
    let sums = sums.as_chunks_mut::<2>().0;
    for (((x, quants), scale), sums) in blocks.iter().zip(quants).zip(scales).zip(sums) {
        let halves: [&[f32; 16]; 2] = [x[..16].first_chunk(), x[16..].first_chunk()].map(|half| half.expect("sixteen"));
        let halves = halves.map(|half| load_ps(half));
        // As integers, magnitudes keep their order and NaN is above infinity.
        let magnitudes = halves.map(|half| _mm512_castps_si512(_mm512_abs_ps(half)));
        let largest = _mm512_reduce_max_epu32(_mm512_max_epu32(magnitudes[0], magnitudes[1]));
        let largest = f32::from_bits(largest);
        let exact = largest / best_level(x, largest);
        let (kept, inverse) = if exact >= f32::MIN_POSITIVE { (exact, 1.0 / exact) } else { (0.0, 0.0) };
        let finite = largest.is_finite();
        *scale = if finite { kept } else { f32::NAN };
        // A block with NaN or an infinity is zeros: whatever its products are becomes NaN by the scale.
        let live = if finite { 0xffff } else { 0 };
        for ((half, quants), sum) in halves.into_iter().zip(quants).zip(sums) {
            let scaled = _mm512_mul_ps(half, _mm512_set1_ps(inverse));
            let scaled = _mm512_min_ps(_mm512_max_ps(scaled, _mm512_set1_ps(-127.0)), _mm512_set1_ps(127.0));
            let rounded = _mm512_maskz_cvtps_epi32(live, scaled);
            *sum = _mm512_reduce_add_epi32(rounded) as i16;
            store(quants, _mm512_cvtepi32_epi8(rounded));
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store(quants: &mut [i8; 16], register: __m128i) {
    // SAFETY: `quants` is 16 writable bytes, and the instruction takes any alignment.
    unsafe { _mm_storeu_si128(quants.as_mut_ptr().cast(), register) }
}

/// As `lanes::best_level`: the errors of the eight levels, those of even elements in the lower lanes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
fn best_level(x: &[f32; Q8_BLOCK], largest: f32) -> f32 {
    let mut levels = [0.0; 16];
    levels[..8].copy_from_slice(&LEVELS);
    levels[8..].copy_from_slice(&LEVELS);
    let inverses = _mm512_div_ps(load_ps(&levels), _mm512_set1_ps(largest));
    let mut squares = _mm512_setzero_ps();
    for pair in x.as_chunks::<2>().0 {
        let both = _mm512_mask_mov_ps(_mm512_set1_ps(pair[0]), 0xff00, _mm512_set1_ps(pair[1]));
        let scaled = _mm512_mul_ps(both, inverses);
        // Ties to even, as adding and subtracting 1.5 * 2^23 rounds.
        let off = _mm512_sub_ps(scaled, _mm512_roundscale_ps::<0>(scaled));
        squares = _mm512_add_ps(squares, _mm512_mul_ps(off, off));
    }
    let errors = _mm256_add_ps(_mm512_castps512_ps256(squares), _mm512_extractf32x8_ps::<1>(squares));
    // Also false where the error is NaN: blocks of zeros, infinities or NaN.
    if _mm256_cvtss_f32(errors) > EXACT {
        let weights = LEVELS.map(|level| {
            let scale = LEVELS[0] / level;
            scale * scale
        });
        let weights = load_ps(&{
            let mut all = [0.0; 16];
            all[..8].copy_from_slice(&weights);
            all
        });
        let errors = _mm512_mul_ps(_mm512_castps256_ps512(errors), weights);
        // The first of the least.
        let least = _mm512_mask_reduce_min_ps(0xff, errors);
        let first = _mm512_mask_cmp_ps_mask::<_CMP_EQ_OQ>(0xff, errors, _mm512_set1_ps(least)).trailing_zeros();
        return LEVELS[first as usize % LEVELS.len()];
    }
    LEVELS[0]
}
