//! Rounding to 8-bit blocks, the bits those of `lanes::quantize_q8`: lane = level, and two blocks are searched side by side, since
//! the sums of one wait for each other. Compilers make single numbers of the loops there: this takes a tenth of their time.

use std::arch::x86_64::*;

use super::registers::load_ps;
use crate::Q8RowMut;
use crate::activations::Q8_BLOCK;
use crate::array::Each;
use crate::lanes::{EXACT, LEVELS};

type Block = [f32; Q8_BLOCK];

/// As `lanes::quantize_q8`.
#[target_feature(enable = "avx2")]
pub fn quantize_q8(out: Q8RowMut<'_>, x: &[f32]) {
    let Q8RowMut { quants, scales, sums } = out;
    let (blocks, rest) = x.as_chunks::<Q8_BLOCK>();
    assert!(rest.is_empty(), "quantize_q8: {} columns", x.len());
    assert_eq!(quants.len(), x.len(), "quantize_q8: quants");
    assert_eq!(scales.len(), blocks.len(), "quantize_q8: scales");
    assert_eq!(sums.len(), blocks.len() * 2, "quantize_q8: sums");
    let (quants, sums) = (quants.as_chunks_mut::<Q8_BLOCK>().0, sums.as_chunks_mut::<2>().0);
    let (pairs, last) = blocks.as_chunks::<2>();
    for (i, pair) in pairs.iter().enumerate() {
        let exact = exact_scales(pair);
        for b in 0..2 {
            let at = 2 * i + b;
            scales[at] = round(&mut quants[at], &mut sums[at], &pair[b], exact[b]);
        }
    }
    if let [last] = last {
        let at = 2 * pairs.len();
        let [exact] = exact_scales(&[*last]);
        scales[at] = round(&mut quants[at], &mut sums[at], last, exact);
    }
}

/// Rounds a block by its scale, which is not finite if the block is not; returns the scale to be stored.
#[inline]
#[target_feature(enable = "avx2")]
fn round(quants: &mut [i8; Q8_BLOCK], sums: &mut [i16; 2], x: &Block, exact: f32) -> f32 {
    if !exact.is_finite() {
        // Whatever its products are becomes NaN by the scale.
        (*quants, *sums) = ([0; Q8_BLOCK], [0; 2]);
        return f32::NAN;
    }
    let (kept, inverse) = if exact >= f32::MIN_POSITIVE { (exact, 1.0 / exact) } else { (0.0, 0.0) };
    let halves = x.as_chunks::<16>().0.iter().zip(quants.as_chunks_mut::<16>().0);
    for ((half, quants), sum) in halves.zip(sums) {
        let mut rounded = [_mm256_setzero_si256(); 2];
        for (x, rounded) in half.as_chunks::<8>().0.iter().zip(&mut rounded) {
            let scaled = _mm256_mul_ps(load_ps(x), _mm256_set1_ps(inverse));
            let scaled = _mm256_min_ps(_mm256_max_ps(scaled, _mm256_set1_ps(-127.0)), _mm256_set1_ps(127.0));
            *rounded = _mm256_cvtps_epi32(scaled);
        }
        let sums = _mm256_add_epi32(rounded[0], rounded[1]);
        let sums = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256::<1>(sums));
        let sums = _mm_hadd_epi32(sums, sums);
        *sum = _mm_cvtsi128_si32(_mm_hadd_epi32(sums, sums)) as i16;
        // Eights of both halves alternate until the permutation.
        let words = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packs_epi32(rounded[0], rounded[1]));
        let bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256::<1>(words));
        store(quants, bytes);
    }
    kept
}

#[inline]
#[target_feature(enable = "avx2")]
fn store(quants: &mut [i8; 16], register: __m128i) {
    // SAFETY: `quants` is 16 writable bytes, and the instruction takes any alignment.
    unsafe { _mm_storeu_si128(quants.as_mut_ptr().cast(), register) }
}

/// The largest magnitude of each block divided by its best level, as `lanes` finds it.
#[inline]
#[target_feature(enable = "avx2")]
fn exact_scales<const N: usize>(blocks: &[Block; N]) -> [f32; N] {
    let mut most = [0.0; N];
    let mut inverses = [_mm256_setzero_ps(); N];
    for b in 0..N {
        most[b] = largest(&blocks[b]);
        inverses[b] = _mm256_div_ps(load_ps(&LEVELS), _mm256_set1_ps(most[b]));
    }
    // The errors of the eight levels, of even and of odd elements.
    let mut squares = [[_mm256_setzero_ps(); 2]; N];
    for i in 0..Q8_BLOCK / 2 {
        for b in 0..N {
            for (odd, square) in squares[b].iter_mut().enumerate() {
                let scaled = _mm256_mul_ps(_mm256_set1_ps(blocks[b][2 * i + odd]), inverses[b]);
                // Ties to even, as adding and subtracting 1.5 * 2^23 rounds.
                let rounded = _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(scaled);
                let off = _mm256_sub_ps(scaled, rounded);
                *square = _mm256_add_ps(*square, _mm256_mul_ps(off, off));
            }
        }
    }
    let weights = LEVELS.each(|level| (LEVELS[0] / level) * (LEVELS[0] / level));
    let mut exact = [0.0; N];
    for b in 0..N {
        let errors = _mm256_add_ps(squares[b][0], squares[b][1]);
        let mut best = LEVELS[0];
        // Also false where the error is NaN: blocks of zeros, infinities or NaN.
        if _mm256_cvtss_f32(errors) > EXACT {
            let errors = _mm256_mul_ps(errors, load_ps(&weights));
            // The first of the least.
            let least = _mm256_min_ps(errors, _mm256_permute2f128_ps::<1>(errors, errors));
            let least = _mm256_min_ps(least, _mm256_permute_ps::<0b01_00_11_10>(least));
            let least = _mm256_min_ps(least, _mm256_permute_ps::<0b10_11_00_01>(least));
            let first = _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_EQ_OQ>(errors, least)).trailing_zeros();
            best = LEVELS[first as usize % LEVELS.len()];
        }
        exact[b] = most[b] / best;
    }
    exact
}

/// The largest magnitude; NaN if there is one.
#[inline]
#[target_feature(enable = "avx2")]
fn largest(block: &Block) -> f32 {
    // As integers, magnitudes keep their order and NaN is above infinity.
    let mut most = _mm256_setzero_si256();
    for x in block.as_chunks::<8>().0 {
        let magnitudes = _mm256_and_si256(_mm256_castps_si256(load_ps(x)), _mm256_set1_epi32(i32::MAX));
        most = _mm256_max_epu32(most, magnitudes);
    }
    let most = _mm_max_epu32(_mm256_castsi256_si128(most), _mm256_extracti128_si256::<1>(most));
    let most = _mm_max_epu32(most, _mm_shuffle_epi32::<0b01_00_11_10>(most));
    let most = _mm_max_epu32(most, _mm_shuffle_epi32::<0b10_11_00_01>(most));
    f32::from_bits(_mm_cvtsi128_si32(most) as u32)
}
