//! 16 x 16 dwords turned around: pairs of inputs on their way into tiles, sums on their way out.

use std::arch::x86_64::*;

/// `out[i][j] = rows[j][i]`.
#[inline]
#[target_feature(enable = "avx512f")]
pub fn transpose(rows: [__m512i; 16]) -> [__m512i; 16] {
    let mut pairs = rows;
    for i in 0..8 {
        pairs[2 * i] = _mm512_unpacklo_epi32(rows[2 * i], rows[2 * i + 1]);
        pairs[2 * i + 1] = _mm512_unpackhi_epi32(rows[2 * i], rows[2 * i + 1]);
    }
    // fours[4 i + c]: of quarter q, column 4 q + c of rows 4 i..4 i + 4.
    let mut fours = pairs;
    for i in (0..16).step_by(4) {
        fours[i] = _mm512_unpacklo_epi64(pairs[i], pairs[i + 2]);
        fours[i + 1] = _mm512_unpackhi_epi64(pairs[i], pairs[i + 2]);
        fours[i + 2] = _mm512_unpacklo_epi64(pairs[i + 1], pairs[i + 3]);
        fours[i + 3] = _mm512_unpackhi_epi64(pairs[i + 1], pairs[i + 3]);
    }
    const EVEN: i32 = 0b10_00_10_00;
    const ODD: i32 = 0b11_01_11_01;
    let mut out = fours;
    for c in 0..4 {
        let (a, b) = (fours[c], fours[4 + c]);
        let (even, odd) = (_mm512_shuffle_i32x4::<EVEN>(a, b), _mm512_shuffle_i32x4::<ODD>(a, b));
        let (a, b) = (fours[8 + c], fours[12 + c]);
        let (even2, odd2) = (_mm512_shuffle_i32x4::<EVEN>(a, b), _mm512_shuffle_i32x4::<ODD>(a, b));
        out[c] = _mm512_shuffle_i32x4::<EVEN>(even, even2);
        out[4 + c] = _mm512_shuffle_i32x4::<EVEN>(odd, odd2);
        out[8 + c] = _mm512_shuffle_i32x4::<ODD>(even, even2);
        out[12 + c] = _mm512_shuffle_i32x4::<ODD>(odd, odd2);
    }
    out
}

/// Both 8 x 8 halves turned around: lane `j` of `out[i]` = lane `i` of `rows[j]`, of the lower halves and of the upper.
#[inline]
#[target_feature(enable = "avx512f")]
pub fn transpose_eights(rows: [__m512; 8]) -> [__m512; 8] {
    let mut pairs = [_mm512_setzero_ps(); 8];
    for i in 0..4 {
        pairs[2 * i] = _mm512_unpacklo_ps(rows[2 * i], rows[2 * i + 1]);
        pairs[2 * i + 1] = _mm512_unpackhi_ps(rows[2 * i], rows[2 * i + 1]);
    }
    // Of each quarter of both halves: column `i % 4` of rows 0 to 3, then of rows 4 to 7.
    let mut fours = [_mm512_setzero_pd(); 8];
    for i in [0, 4] {
        let [a, b, c, d] = [pairs[i], pairs[i + 1], pairs[i + 2], pairs[i + 3]];
        fours[i] = _mm512_unpacklo_pd(_mm512_castps_pd(a), _mm512_castps_pd(c));
        fours[i + 1] = _mm512_unpackhi_pd(_mm512_castps_pd(a), _mm512_castps_pd(c));
        fours[i + 2] = _mm512_unpacklo_pd(_mm512_castps_pd(b), _mm512_castps_pd(d));
        fours[i + 3] = _mm512_unpackhi_pd(_mm512_castps_pd(b), _mm512_castps_pd(d));
    }
    let low = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13);
    let high = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
    let mut out = rows;
    for i in 0..4 {
        out[i] = _mm512_castpd_ps(_mm512_permutex2var_pd(fours[i], low, fours[4 + i]));
        out[4 + i] = _mm512_castpd_ps(_mm512_permutex2var_pd(fours[i], high, fours[4 + i]));
    }
    out
}
