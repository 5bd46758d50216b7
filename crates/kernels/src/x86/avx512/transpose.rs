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
    let [a, b, c, d, e, f, g, h] = rows.map(|row| _mm512_castps_si512(row));
    // Of each quarter: columns 0 to 3 of it of four rows.
    let fours = |a, b, c, d| {
        let (low, high) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
        let (low2, high2) = (_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
        [
            _mm512_unpacklo_epi64(low, low2),
            _mm512_unpackhi_epi64(low, low2),
            _mm512_unpacklo_epi64(high, high2),
            _mm512_unpackhi_epi64(high, high2),
        ]
    };
    let (first, second) = (fours(a, b, c, d), fours(e, f, g, h));
    let even = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13);
    let odd = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
    std::array::from_fn(|i| {
        let order = if i < 4 { even } else { odd };
        _mm512_castsi512_ps(_mm512_permutex2var_epi64(first[i % 4], order, second[i % 4]))
    })
}
