//! Scales and minima of weight rows: of two as `row` wants them, of four in the order of `quarters`.

use std::arch::x86_64::*;

use super::factored;
use super::quarters;
use super::registers::load_512;
use crate::array::Each;
use crate::x86::avx2::registers::load_128;

/// Scales of two rows, and minima of both, that are to be subtracted.
pub type ScalesMinima = (__m512, [__m512; 2]);

/// Of formats without minima.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub fn without_minima(scales: [__m512; 2]) -> [ScalesMinima; 2] {
    scales.each(|scales| (scales, [_mm512_setzero_ps(); 2]))
}

/// Four quarters.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub fn join_quarters([a, b, c, d]: [__m128i; 4]) -> __m512i {
    _mm512_inserti64x4::<1>(_mm512_castsi256_si512(_mm256_set_m128i(b, a)), _mm256_set_m128i(d, c))
}

/// The scales of eight blocks of 18 bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub fn scales_18(w: &[u8; 144]) -> __m256 {
    let order = _mm512_castsi128_si512(_mm_setr_epi16(0, 9, 18, 27, 36, 45, 54, 63));
    let words = _mm512_permutex2var_epi16(load_512(w, 0), order, load_512(w, 64));
    _mm256_cvtph_ps(_mm512_castsi512_si128(words))
}

/// The same of four rows.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub fn scales_18_of_four([a, b, c, d]: [&[u8; 144]; 4]) -> [__m512; 2] {
    [[a, b], [c, d]].each(|rows| quarters::of_rows(rows.each(|w| scales_18(w))))
}

/// Eight words each of two rows in the order of [`super::quarters`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn words_of_rows([a, b]: [__m512i; 2]) -> __m256i {
    let both = _mm256_set_m128i(_mm512_castsi512_si128(b), _mm512_castsi512_si128(a));
    _mm256_permutevar8x32_epi32(both, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7))
}

/// Scales and minima of four rows of blocks of 20 bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub fn scales_minima_20([a, b, c, d]: [&[u8; 160]; 4]) -> [ScalesMinima; 2] {
    [[a, b], [c, d]].each(|rows| {
        let [a, b] = rows.each(|w| {
            let order = _mm512_castsi256_si512(_mm256_setr_epi32(0, 5, 10, 15, 16, 21, 26, 31));
            _mm512_castsi512_si256(_mm512_permutex2var_epi32(load_512(w, 0), order, load_512(w, 80)))
        });
        // Scales of both, two of a row and two of the next, then minima.
        let order = [0x0012_0010_0002_0000, 0x0016_0014_0006_0004, 0x001a_0018_000a_0008, 0x001e_001c_000e_000c];
        let order = _mm512_castsi256_si512(_mm256_setr_epi64x(order[0], order[1], order[2], order[3]));
        let order =
            _mm512_inserti64x4::<1>(order, _mm256_add_epi16(_mm512_castsi512_si256(order), _mm256_set1_epi16(1)));
        let halves = _mm512_permutexvar_epi16(order, _mm512_inserti64x4::<1>(_mm512_castsi256_si512(a), b));
        let minima = _mm512_cvtph_ps(_mm512_extracti64x4_epi64::<1>(halves));
        let minima = _mm512_xor_ps(minima, _mm512_set1_ps(-0.0));
        (_mm512_cvtph_ps(_mm512_castsi512_si256(halves)), [minima; 2])
    })
}

/// Of eight blocks of 22 bytes: the words of fifth bits, as [`Row::quarters`] has weights, then the scales.
///
/// [`Row::quarters`]: super::row::Row::quarters
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub fn words_22(w: &[u8; 176]) -> __m512i {
    const ORDERS: [[u8; 64]; 2] = orders(11, 1, 56);
    let words = _mm512_permutex2var_epi16(load_512(w, 0), load_512(&ORDERS[0], 0), load_512(w, 64));
    _mm512_permutex2var_epi16(words, load_512(&ORDERS[1], 0), load_512(w, 112))
}

/// The same of eight blocks of 24 bytes, then the minima.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub fn words_24(w: &[u8; 192]) -> __m512i {
    const ORDERS: [[u8; 64]; 2] = orders(12, 2, 64);
    let words = _mm512_permutex2var_epi16(load_512(w, 0), load_512(&ORDERS[0], 0), load_512(w, 64));
    _mm512_permutex2var_epi16(words, load_512(&ORDERS[1], 0), load_512(w, 128))
}

/// Where the words are in blocks of `stride` words whose fifth bits begin with word `bits`: in the first 64 words, then in what
/// is found there and the 32 words from `last`.
const fn orders(stride: usize, bits: usize, last: usize) -> [[u8; 64]; 2] {
    let mut orders = [[0; 64]; 2];
    let mut i = 0;
    while i < 32 {
        let at = if i < 16 { (i % 4 * 2 + i / 8) * stride + bits + i / 4 % 2 } else { i % 8 * stride + i / 24 };
        let (first, second) = if at < 64 { (at, i) } else { (0, 32 + at - last) };
        orders[0][2 * i] = first as u8;
        orders[1][2 * i] = second as u8;
        i += 1;
    }
    orders
}

/// The scales of four rows, from words 16 to 23 of each.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub fn scales_of_four([a, b, c, d]: [__m512i; 4]) -> [__m512; 2] {
    [[a, b], [c, d]].each(|rows| {
        let words = rows.each(|words| _mm512_castsi128_si512(_mm512_extracti32x4_epi32::<2>(words)));
        _mm512_cvtph_ps(words_of_rows(words))
    })
}

/// Scales and minima of four rows of blocks of 24 bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub fn scales_minima_24(w: [&[u8; 192]; 4]) -> [ScalesMinima; 2] {
    let words = w.each(|w| words_24(w));
    // Words 24 to 31, where 16 to 23 were.
    let minima = scales_of_four(words.each(|words| _mm512_shuffle_i32x4::<0b11_11_11_11>(words, words)));
    let scales = scales_of_four(words);
    [0, 1].each(|i| (scales[i], [_mm512_xor_ps(minima[i], _mm512_set1_ps(-0.0)); 2]))
}

/// Halves of the powers of two that blocks of 17 bytes begin with, of four rows; the two smallest are subnormal.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub fn half_powers_of_four([a, b, c, d]: [&[u8; 8 * 17]; 4]) -> [__m512; 2] {
    [[a, b], [c, d]].each(|rows| {
        let words = words_of_rows(rows.each(|w| {
            let order = _mm512_castsi128_si512(_mm_setr_epi16(0, 8, 17, 25, 34, 42, 51, 59));
            _mm512_permutex2var_epi16(load_512(w, 0), order, load_512(w, 64))
        }));
        // Blocks begin with the lower and with the upper byte of a word by turns.
        let exponents = _mm512_srlv_epi32(_mm512_cvtepu16_epi32(words), _mm512_set1_epi64(8 << 32));
        let exponents = _mm512_and_si512(exponents, _mm512_set1_epi32(0xff));
        let one = _mm512_set1_epi32(1);
        let normal = _mm512_slli_epi32::<23>(_mm512_sub_epi32(exponents, one));
        let subnormal = _mm512_cmple_epi32_mask(exponents, one);
        _mm512_castsi512_ps(_mm512_mask_sllv_epi32(normal, subnormal, _mm512_set1_epi32(0x0020_0000), exponents))
    })
}

/// Scales of four rows of IQ4_XS.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub fn scales_xs_of_four([a, b, c, d]: [&[u8; 136]; 4]) -> [__m512; 2] {
    const SECOND: u16 = 0xcccc;
    [[a, b], [c, d]].each(|[a, b]| {
        let both = |of: fn(&[u8; 136]) -> i32| _mm512_mask_set1_epi32(_mm512_set1_epi32(of(a)), SECOND, of(b));
        let low = both(|w| i32::from_le_bytes([w[4], w[5], w[6], w[7]]));
        let high = both(|w| i32::from(u16::from_le_bytes([w[2], w[3]])) << 4);
        let blocks = _mm512_setr_epi32(0, 1, 0, 1, 2, 3, 2, 3, 4, 5, 4, 5, 6, 7, 6, 7);
        let low = _mm512_and_si512(_mm512_srlv_epi32(low, _mm512_slli_epi32::<2>(blocks)), _mm512_set1_epi32(15));
        let high = _mm512_srlv_epi32(high, _mm512_slli_epi32::<1>(blocks));
        // (high & 0x30) | low
        let factors = _mm512_ternarylogic_epi32::<0xf8>(low, high, _mm512_set1_epi32(0x30));
        let factors = _mm512_cvtepi32_ps(_mm512_sub_epi32(factors, _mm512_set1_epi32(32)));
        let d = _mm_cvtph_ps(_mm_unpacklo_epi16(load_128(a, 0), load_128(b, 0)));
        let order = _mm512_setr_epi32(0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1);
        _mm512_mul_ps(_mm512_permutexvar_ps(order, _mm512_castps128_ps512(d)), factors)
    })
}

/// Scales and minima of eight blocks of two rows, from blocks of 256 that begin with d, dmin and 12 packed bytes; the
/// bytes as AVX2's `scales_minima` takes them apart.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub fn scales_minima<const N: usize>([a, b]: [&[u8; N]; 2]) -> [__m512; 2] {
    const LOW6: i32 = 0x3f3f_3f3f;
    const LOW4: i32 = 0x0f0f_0f0f;
    const UPPER: i32 = 0x3030_3030;
    let heads = _mm256_set_m128i(load_128(b, 0), load_128(a, 0));
    let low = _mm256_shuffle_epi32::<0b11_10_11_01>(heads);
    let low = _mm256_srlv_epi32(low, _mm256_setr_epi32(0, 0, 0, 4, 0, 0, 0, 4));
    let high = _mm256_srli_epi32::<2>(_mm256_shuffle_epi32::<0b10_10_01_01>(heads));
    let packed = _mm256_or_si256(
        _mm256_and_si256(low, _mm256_setr_epi32(LOW6, LOW4, LOW6, LOW4, LOW6, LOW4, LOW6, LOW4)),
        _mm256_and_si256(high, _mm256_setr_epi32(0, UPPER, 0, UPPER, 0, UPPER, 0, UPPER)),
    );
    // Scales of both rows, then minima of both.
    let packed = _mm256_permute4x64_epi64::<0b11_01_10_00>(packed);
    let scales = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm256_castsi256_si128(packed)));
    let minima = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm256_extracti128_si256::<1>(packed)));
    // d, dmin and six more bytes of the first row, then of the second.
    let halves =
        _mm256_cvtph_ps(_mm_unpacklo_epi64(_mm256_castsi256_si128(heads), _mm256_extracti128_si256::<1>(heads)));
    let halves = _mm512_castps256_ps512(halves);
    let d = _mm512_permutexvar_ps(_mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 4, 4, 4, 4, 4, 4, 4, 4), halves);
    let dmin = _mm512_permutexvar_ps(_mm512_setr_epi32(1, 1, 1, 1, 1, 1, 1, 1, 5, 5, 5, 5, 5, 5, 5, 5), halves);
    [_mm512_mul_ps(d, scales), _mm512_mul_ps(dmin, minima)]
}

/// The heads of four rows of such blocks.
pub struct Heads {
    /// In quarter `q` for each row its scales of blocks `2 * q` and `2 * q + 1`, then for each its minima.
    bytes: __m512i,
    /// d and dmin of each row.
    halves: __m512,
}

impl Heads {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
    pub fn new<const N: usize>(w: [&[u8; N]; 4]) -> Heads {
        const LOW6: i32 = 0x3f3f_3f3f;
        const LOW4: i32 = 0x0f0f_0f0f;
        const UPPER: i32 = 0x3030_3030;
        let every = |a, b, c, d| _mm512_broadcast_i32x4(_mm_setr_epi32(a, b, c, d));
        let heads = join_quarters(w.each(|w| load_128(w, 0)));
        let low = _mm512_srlv_epi32(_mm512_shuffle_epi32::<0b11_10_11_01>(heads), every(0, 0, 0, 4));
        let high = _mm512_srli_epi32::<2>(_mm512_shuffle_epi32::<0b10_10_01_01>(heads));
        let packed = _mm512_or_si512(
            _mm512_and_si512(low, every(LOW6, LOW4, LOW6, LOW4)),
            _mm512_and_si512(high, every(0, UPPER, 0, UPPER)),
        );
        // Word `q` of a row's quarter is two scales, word `4 + q` two minima.
        let order = _mm512_set_epi64(
            0x001f_0017_000f_0007,
            0x001b_0013_000b_0003,
            0x001e_0016_000e_0006,
            0x001a_0012_000a_0002,
            0x001d_0015_000d_0005,
            0x0019_0011_0009_0001,
            0x001c_0014_000c_0004,
            0x0018_0010_0008_0000,
        );
        let halves =
            _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 4, 8, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), heads);
        Heads {
            bytes: _mm512_permutexvar_epi16(order, packed),
            halves: _mm512_castps256_ps512(_mm256_cvtph_ps(_mm512_castsi512_si128(halves))),
        }
    }

    /// The four bytes of each quarter from `at` as floats.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
    fn floats(&self, at: i32) -> __m512 {
        // Bytes that are not there become zeros.
        let [a, b, c, d] = [0, 1, 2, 3].each(|i| 0x8080_8000_u32 as i32 | (at + i));
        let order = _mm512_broadcast_i32x4(_mm_setr_epi32(a, b, c, d));
        _mm512_cvtepi32_ps(_mm512_shuffle_epi8(self.bytes, order))
    }

    /// The same as two words each.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
    fn words(&self, at: i32) -> __m512i {
        let [a, b, c, d] = [0, 1, 2, 3].each(|i| 0x8000_8000_u32 as i32 | ((at + i) * 0x1_0001));
        _mm512_shuffle_epi8(self.bytes, _mm512_broadcast_i32x4(_mm_setr_epi32(a, b, c, d)))
    }

    /// Of two rows each the half at `at`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
    fn halves(&self, at: i32) -> __m512 {
        let order = _mm_setr_epi32(at, at, at + 2, at + 2);
        _mm512_permutexvar_ps(_mm512_broadcast_i32x4(order), self.halves)
    }

    /// Whole factors of blocks, each twice as a word.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
    pub fn factors(&self) -> [__m512i; 2] {
        [self.words(0), self.words(4)]
    }

    /// What factors are multiplied with, and minima.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
    pub fn scales_minima(&self) -> [ScalesMinima; 2] {
        [0, 4].each(|at| (self.halves(at), [_mm512_mul_ps(self.halves(at + 1), self.floats(8 + at)); 2]))
    }

    /// Scales and minima.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
    pub fn factored_minima(&self) -> [ScalesMinima; 2] {
        let [first, last] = self.scales_minima();
        [(first, 0), (last, 4)].each(|((scale, minima), at)| (_mm512_mul_ps(scale, self.floats(at)), minima))
    }
}

/// Scales, and minima of both halves of blocks, of four rows of Q2_K.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub fn scales_minima_2(w: [&[u8; 84]; 4], multiples: [u8; 4]) -> [ScalesMinima; 2] {
    let nibbles = _mm512_srli_epi16::<4>(join_quarters(w.each(|w| load_128(w, 0))));
    let words = factored::words_of_four(_mm512_and_si512(nibbles, _mm512_set1_epi8(15)));
    // d and dmin of each row.
    let [a, b, c, d] = w.each(|w| i32::from_le_bytes([w[80], w[81], w[82], w[83]]));
    let halves = _mm256_cvtph_ps(_mm_setr_epi32(a, b, c, d));
    let (low, high) = (_mm256_castps256_ps128(halves), _mm256_extractf128_ps::<1>(halves));
    let scales = factored::of_rows(_mm_shuffle_ps::<0b10_00_10_00>(low, high), multiples);
    let dmin = factored::of_rows(_mm_shuffle_ps::<0b11_01_11_01>(low, high), [1; 4]);
    [0, 1].each(|i| {
        let first = _mm512_and_si512(words[i], _mm512_set1_epi32(0xffff));
        let second = _mm512_srli_epi32::<16>(words[i]);
        (scales[i], [first, second].each(|minima| _mm512_mul_ps(dmin[i], _mm512_cvtepi32_ps(minima))))
    })
}

/// The last 16 bytes of four rows of Q3_K: two of weights, 12 of factors, d.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub fn tails_3(w: [&[u8; 110]; 4]) -> __m512i {
    join_quarters(w.each(|w| load_128(w, 94)))
}

/// The factors in them, as AVX2's `factors_3` takes them apart.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub fn factors_3_of_four(tails: __m512i) -> __m512i {
    let every = |quarter| _mm512_broadcast_i32x4(quarter);
    let low = _mm512_shuffle_epi8(tails, every(_mm_setr_epi8(2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5, 6, 7, 8, 9)));
    let low = _mm512_and_si512(_mm512_srlv_epi32(low, every(_mm_setr_epi32(0, 0, 4, 4))), _mm512_set1_epi8(15));
    let high = _mm512_shuffle_epi8(tails, _mm512_set1_epi32(0x0d0c_0b0a));
    // What comes from the neighbouring byte is masked.
    let high = _mm512_rolv_epi32(high, every(_mm_setr_epi32(4, 2, 0, 30)));
    // (high & 0x30) | low
    let factors = _mm512_ternarylogic_epi32::<0xf8>(low, high, _mm512_set1_epi8(0x30));
    _mm512_sub_epi8(factors, _mm512_set1_epi8(32))
}
