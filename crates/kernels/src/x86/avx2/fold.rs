//! Adding and transposing within registers.

use std::arch::x86_64::*;

use crate::array::Each;

/// Lane `j` = sum of the 8 i32 of `fours[j]`, each of which is below 2^15 / 2: products of four weights of up to 5 bits.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn fold_narrow(fours: [__m256i; 8]) -> __m256i {
    join(fold_narrow_halves(fours))
}

/// As [`fold_narrow`] without adding the halves of 16 columns: the first register has the sums of products 0 to 3, first
/// halves in its lower and second halves in its upper four lanes; the second register products 4 to 7.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn fold_narrow_halves(fours: [__m256i; 8]) -> [__m256i; 2] {
    let ones = _mm256_set1_epi16(1);
    let pair = |a, b| _mm256_madd_epi16(_mm256_packs_epi32(a, b), ones);
    let [a, b, c, d, e, f, g, h] = fours;
    [pair(pair(a, b), pair(c, d)), pair(pair(e, f), pair(g, h))]
}

/// As [`fold_narrow_halves`] for products of four below 2^15: weights of 6 bits.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn fold_middle_halves(fours: [__m256i; 8]) -> [__m256i; 2] {
    let ones = _mm256_set1_epi16(1);
    let pair = |a, b| _mm256_madd_epi16(_mm256_packs_epi32(a, b), ones);
    let [a, b, c, d, e, f, g, h] = fours;
    [_mm256_hadd_epi32(pair(a, b), pair(c, d)), _mm256_hadd_epi32(pair(e, f), pair(g, h))]
}

/// As [`fold_narrow`] for any i32.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn fold_wide(fours: [__m256i; 8]) -> __m256i {
    let pair = |a, b| _mm256_hadd_epi32(a, b);
    let [a, b, c, d, e, f, g, h] = fours;
    join([pair(pair(a, b), pair(c, d)), pair(pair(e, f), pair(g, h))])
}

/// Adds the halves of 16 columns: lane = block.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn join([a, b]: [__m256i; 2]) -> __m256i {
    _mm256_add_epi32(_mm256_permute2x128_si256::<0x20>(a, b), _mm256_permute2x128_si256::<0x31>(a, b))
}

/// The order of `crate::order::tree`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn tree(lanes: __m256) -> f32 {
    let four = _mm_add_ps(_mm256_castps256_ps128(lanes), _mm256_extractf128_ps::<1>(lanes));
    let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
}

/// Rows become columns: lane `r` of register `c` = lane `c` of register `r`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn transpose(rows: [__m256i; 8]) -> [__m256i; 8] {
    let [a, b, c, d, e, f, g, h] = rows;
    let (ab0, ab1) = (_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
    let (cd0, cd1) = (_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d));
    let (ef0, ef1) = (_mm256_unpacklo_epi32(e, f), _mm256_unpackhi_epi32(e, f));
    let (gh0, gh1) = (_mm256_unpacklo_epi32(g, h), _mm256_unpackhi_epi32(g, h));
    let (ad0, ad1) = (_mm256_unpacklo_epi64(ab0, cd0), _mm256_unpackhi_epi64(ab0, cd0));
    let (ad2, ad3) = (_mm256_unpacklo_epi64(ab1, cd1), _mm256_unpackhi_epi64(ab1, cd1));
    let (eh0, eh1) = (_mm256_unpacklo_epi64(ef0, gh0), _mm256_unpackhi_epi64(ef0, gh0));
    let (eh2, eh3) = (_mm256_unpacklo_epi64(ef1, gh1), _mm256_unpackhi_epi64(ef1, gh1));
    [
        _mm256_permute2x128_si256::<0x20>(ad0, eh0),
        _mm256_permute2x128_si256::<0x20>(ad1, eh1),
        _mm256_permute2x128_si256::<0x20>(ad2, eh2),
        _mm256_permute2x128_si256::<0x20>(ad3, eh3),
        _mm256_permute2x128_si256::<0x31>(ad0, eh0),
        _mm256_permute2x128_si256::<0x31>(ad1, eh1),
        _mm256_permute2x128_si256::<0x31>(ad2, eh2),
        _mm256_permute2x128_si256::<0x31>(ad3, eh3),
    ]
}

/// As [`transpose`].
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn transpose_ps(rows: [__m256; 8]) -> [__m256; 8] {
    let columns = transpose(rows.each(|row| _mm256_castps_si256(row)));
    columns.each(|column| _mm256_castsi256_ps(column))
}

/// `-x`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn negated(x: __m256) -> __m256 {
    _mm256_xor_ps(x, _mm256_set1_ps(-0.0))
}
