//! Inputs rounded to 8 bits: a float for 256 columns, a whole number of up to 255 for 32 of them.
//!
//! What a block's factor is at least makes its largest magnitude 127 or less, and keeps the sums of magnitudes over 16
//! columns within what products of 16 bits can take. That asks something of flat blocks alone, whose rounding loses less
//! than that of others even so. Of eight factors the one with the least squared error is taken.

use std::arch::x86_64::*;

use super::input::Input;
use crate::x86::avx512::transpose::transpose;
use crate::x86::batch::lines::load_ps;
use crate::x86::superblocks::COLS;
use crate::x86::superblocks::inputs::{FACTORS, FLAT, INPUTS, LARGEST, Packed, Piece};
use crate::{Form, Line, Packing};

/// How inputs are packed. Superblock by superblock, inputs lie one after the other.
pub static PACKING: Packing = Packing {
    form: Form::Int8,
    inputs: INPUTS,
    cols: COLS,
    lines: INPUTS * Input::LINES,
    pack: |piece, x, cols, index| {
        // SAFETY: only a table leads here, and only a token of a processor that has these features to the table.
        unsafe { pack(piece, x, cols, index) }
    },
    gate: None,
};

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
fn pack(piece: &mut [Line], x: &[f32], cols: usize, index: usize) {
    let x = Piece::new(x, cols, index);
    let (pairs, last) = Input::all_mut(piece)[..x.count].as_chunks_mut::<2>();
    for (i, pair) in pairs.iter_mut().enumerate() {
        // A row's superblock is too short for the processor to see the next one coming.
        for next in (2 * i + 2..x.count).take(2) {
            prefetch(x.row(next));
        }
        round(pair, [x.row(2 * i), x.row(2 * i + 1)]);
    }
    if let [last] = last {
        let mut both = [Input::ZERO; 2];
        round(&mut both, [x.row(x.count - 1); 2]);
        *last = both[0];
    }
}

#[inline]
fn prefetch(columns: &[f32; COLS]) {
    for line in columns.as_chunks::<16>().0 {
        // SAFETY: every x86-64 processor has the instruction.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
}

/// A superblock of two inputs: sixteen blocks, which are lanes.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
fn round(out: &mut [Input; 2], x: [&[f32; COLS]; 2]) {
    let columns = blocks(x);
    let (least, finite) = least_scales(&columns);
    let unit = _mm512_mul_ps(largest_of_eight(least), _mm512_set1_ps(1.0 / LARGEST));
    // A superblock of zeros, or nearly, is zero.
    let live = _mm512_cmp_ps_mask::<_CMP_GE_OQ>(unit, _mm512_set1_ps(f32::MIN_POSITIVE)) & finite;
    let inverse = _mm512_maskz_div_ps(live, _mm512_set1_ps(1.0), unit);
    let factor = best_factors(&columns, _mm512_mul_ps(least, inverse), inverse);
    let inverse = _mm512_div_ps(inverse, factor);

    let mut sums = [_mm512_setzero_si512(); 2];
    for step in 0..8 {
        let mut quants = [_mm512_setzero_si512(); 4];
        for i in 0..4 {
            quants[i] = _mm512_maskz_cvtps_epi32(live, _mm512_mul_ps(columns[4 * step + i], inverse));
            sums[step / 4] = _mm512_sub_epi32(sums[step / 4], quants[i]);
        }
        let byte = |i: usize| _mm512_and_si512(quants[i], _mm512_set1_epi32(0xff));
        let low = _mm512_or_si512(byte(0), _mm512_slli_epi32::<8>(byte(1)));
        let high = _mm512_or_si512(byte(2), _mm512_slli_epi32::<8>(quants[3]));
        let bytes = _mm512_or_si512(low, _mm512_slli_epi32::<16>(high));
        let [first, second] = out.each_mut().map(|input| input.quants[step].as_flattened_mut());
        store_halves([first, second], bytes);
    }
    for half in 0..2 {
        let [first, second] = out.each_mut().map(|input| input.offsets[half].as_flattened_mut());
        store_halves([first, second], _mm512_slli_epi32::<5>(sums[half]));
    }
    let factor = _mm512_cvtps_epi32(factor);
    let [first, second] = out.each_mut().map(|input| input.factors.as_flattened_mut());
    store_quarters([first, second], _mm512_cvtepi32_epi16(factor));

    let sum = _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_add_epi32(sums[0], sums[1]));
    let sixteenths = _mm512_add_epi32(_mm512_mullo_epi32(sum, factor), _mm512_set1_epi32(8));
    let sixteenths = _mm512_cvtepi32_epi16(_mm512_srai_epi32::<4>(sixteenths));
    let [first, second] = out.each_mut().map(|input| input.scaled_sums.as_flattened_mut());
    store_quarters([first, second], sixteenths);

    let unit = _mm512_maskz_mov_ps(live, unit);
    let unit = _mm512_mask_mov_ps(_mm512_set1_ps(f32::NAN), finite, unit);
    out[0].scale = _mm512_cvtss_f32(unit);
    out[1].scale = _mm256_cvtss_f32(_mm512_extractf32x8_ps::<1>(unit));
}

/// Lane = block: eight of the first input, eight of the second.
#[inline]
#[target_feature(enable = "avx512f")]
fn blocks(x: [&[f32; COLS]; 2]) -> [__m512; 32] {
    let mut columns = [_mm512_setzero_ps(); 32];
    for half in 0..2 {
        let mut rows = [_mm512_setzero_si512(); 16];
        for block in 0..16 {
            let columns = &x[block / 8].as_chunks::<16>().0[2 * (block % 8) + half];
            rows[block] = _mm512_castps_si512(load_ps(columns));
        }
        for (i, column) in transpose(rows).into_iter().enumerate() {
            columns[16 * half + i] = _mm512_castsi512_ps(column);
        }
    }
    columns
}

/// What each block's scale is at least, and which superblocks are finite.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn least_scales(columns: &[__m512; 32]) -> (__m512, __mmask16) {
    let mut largest = _mm512_setzero_si512();
    let mut sums = [_mm512_setzero_ps(); 2];
    for i in 0..32 {
        let magnitude = _mm512_abs_ps(columns[i]);
        // As integers, magnitudes keep their order and NaN is above infinity.
        largest = _mm512_max_epu32(largest, _mm512_castps_si512(magnitude));
        sums[i / 16] = _mm512_fmadd_ps(magnitude, _mm512_set1_ps(1.0 / FLAT), sums[i / 16]);
    }
    let infinity = _mm512_castps_si512(_mm512_set1_ps(f32::INFINITY));
    let infinite = _mm512_cmpge_epu32_mask(largest, infinity);
    let spread = |eight: u16| if eight == 0 { 0xff } else { 0 };
    let finite = spread(infinite & 0xff) | spread(infinite >> 8) << 8;
    let largest = _mm512_mul_ps(_mm512_castsi512_ps(largest), _mm512_set1_ps(1.0 / 127.0));
    (_mm512_max_ps(largest, _mm512_max_ps(sums[0], sums[1])), finite)
}

/// In each lane the largest of the lower eight or of the upper eight.
#[inline]
#[target_feature(enable = "avx512f")]
fn largest_of_eight(x: __m512) -> __m512 {
    let x = _mm512_max_ps(x, _mm512_shuffle_f32x4::<0b10_11_00_01>(x, x));
    let x = _mm512_max_ps(x, _mm512_permute_ps::<0b01_00_11_10>(x));
    _mm512_max_ps(x, _mm512_permute_ps::<0b10_11_00_01>(x))
}

/// The factors with the least squared error, of the least that will do and others up to 5.5 % above it, or that are next to it.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn best_factors(columns: &[__m512; 32], least: __m512, inverse: __m512) -> __m512 {
    const UP: i32 = _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC;
    let first = _mm512_max_ps(_mm512_roundscale_ps::<UP>(least), _mm512_set1_ps(1.0));
    let step = _mm512_max_ps(_mm512_mul_ps(first, _mm512_set1_ps(1.0 / 128.0)), _mm512_set1_ps(1.0));
    let mut factors = [first; FACTORS];
    let mut inverses = [inverse; FACTORS];
    for i in 0..FACTORS {
        factors[i] = _mm512_roundscale_ps::<0>(_mm512_fmadd_ps(step, _mm512_set1_ps(i as f32), first));
        inverses[i] = _mm512_div_ps(inverse, factors[i]);
    }
    let mut squares = [_mm512_setzero_ps(); FACTORS];
    for i in 0..32 {
        for f in 0..FACTORS {
            // Less the nearest whole number.
            let off = _mm512_reduce_ps::<0>(_mm512_mul_ps(columns[i], inverses[f]));
            squares[f] = _mm512_fmadd_ps(off, off, squares[f]);
        }
    }
    let error = |f: usize| _mm512_mul_ps(squares[f], _mm512_mul_ps(factors[f], factors[f]));
    let (mut best, mut least) = (first, error(0));
    for f in 1..FACTORS {
        let error = error(f);
        let less = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(error, least);
        best = _mm512_mask_mov_ps(best, less, factors[f]);
        least = _mm512_mask_mov_ps(least, less, error);
    }
    best
}

/// 32 bytes to each.
#[inline]
#[target_feature(enable = "avx512f")]
fn store_halves<T: Copy>([first, second]: [&mut [T]; 2], register: __m512i) {
    assert!(size_of_val(first) == 32 && size_of_val(second) == 32, "half of a register");
    // SAFETY: both are 32 writable bytes of integers, and the instruction takes any alignment.
    unsafe {
        _mm256_storeu_si256(first.as_mut_ptr().cast(), _mm512_castsi512_si256(register));
        _mm256_storeu_si256(second.as_mut_ptr().cast(), _mm512_extracti64x4_epi64::<1>(register));
    }
}

/// 16 bytes to each.
#[inline]
#[target_feature(enable = "avx512f")]
fn store_quarters([first, second]: [&mut [i16]; 2], register: __m256i) {
    assert!(first.len() == 8 && second.len() == 8, "half of a register");
    // SAFETY: both are 16 writable bytes, and the instruction takes any alignment.
    unsafe {
        _mm_storeu_si128(first.as_mut_ptr().cast(), _mm256_castsi256_si128(register));
        _mm_storeu_si128(second.as_mut_ptr().cast(), _mm256_extracti128_si256::<1>(register));
    }
}
