//! Inputs rounded to 8 bits, as those of AVX-512 VNNI are: see there.

use std::arch::x86_64::*;

use super::input::Input;
use super::pairs::Pairs;
use crate::x86::avx2::fold::{transpose, transpose_ps};
use crate::x86::avx2::registers::load_ps;
use crate::x86::superblocks::COLS;
use crate::x86::superblocks::inputs::{FACTORS, FLAT, INPUTS, LARGEST, Packed, Piece};
use crate::{Form, Line, Packing};

/// How inputs are packed.
pub const fn packing<M: Pairs>() -> Packing {
    let pack = |piece: &mut [Line], x: &[f32], cols, index| {
        // SAFETY: only a table leads here, and only a token of a processor that has these features to the table.
        unsafe { pack::<M>(piece, x, cols, index) }
    };
    Packing { form: Form::Int8, inputs: INPUTS, cols: COLS, lines: INPUTS * Input::LINES, pack, gate: None }
}

const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;

#[target_feature(enable = "avx2,fma,f16c")]
fn pack<M: Pairs>(piece: &mut [Line], x: &[f32], cols: usize, index: usize) {
    let x = Piece::new(x, cols, index);
    for (t, out) in Input::all_mut(piece)[..x.count].iter_mut().enumerate() {
        round::<M>(out, x.row(t));
    }
}

/// A superblock of an input: eight blocks, which are lanes.
#[target_feature(enable = "avx2,fma,f16c")]
fn round<M: Pairs>(out: &mut Input, x: &[f32; COLS]) {
    let columns = blocks(x);
    let (least, finite) = least_scales(&columns);
    let unit = largest(least) / LARGEST;
    // A superblock of zeros, or nearly, is zero.
    let live = finite && unit >= f32::MIN_POSITIVE;
    let inverse = _mm256_set1_ps(if live { 1.0 / unit } else { 0.0 });
    let factor = best_factors(&columns, _mm256_mul_ps(least, inverse), inverse);
    let inverse = _mm256_div_ps(inverse, factor);
    let live_lanes = _mm256_set1_epi32(if live { -1 } else { 0 });

    let mut sums = [_mm256_setzero_si256(); 2];
    for eight in 0..2 {
        let mut steps = [_mm256_setzero_si256(); 8];
        for step in 0..8 {
            let mut quants = [_mm256_setzero_si256(); 2];
            for i in 0..2 {
                let scaled = _mm256_mul_ps(columns[16 * eight + 2 * step + i], inverse);
                quants[i] = _mm256_and_si256(_mm256_cvtps_epi32(scaled), live_lanes);
                sums[eight] = _mm256_sub_epi32(sums[eight], quants[i]);
            }
            let low = _mm256_and_si256(quants[0], _mm256_set1_epi32(0xff));
            steps[step] = pairs(_mm256_or_si256(low, _mm256_slli_epi32::<8>(quants[1])));
        }
        let steps = transpose(steps);
        for pair in 0..4 {
            let (first, last) = out.quants[pair].split_at_mut(8);
            // SAFETY: only `packing`'s kernel leads here, and only a table to that, whose token says that the processor has `M`'s products.
            store_32(if eight == 0 { first } else { last }, unsafe { M::inputs(steps[2 * pair]) });
        }
    }
    for half in 0..2 {
        store_16(&mut out.offsets[half], even(pairs(_mm256_slli_epi32::<5>(sums[half]))));
    }
    let factor = _mm256_cvtps_epi32(factor);
    store_16(&mut out.factors, even(pairs(factor)));
    let sum = _mm256_sub_epi32(_mm256_setzero_si256(), _mm256_add_epi32(sums[0], sums[1]));
    let sixteenths = _mm256_add_epi32(_mm256_mullo_epi32(sum, factor), _mm256_set1_epi32(8));
    store_16(&mut out.scaled_sums, even(pairs(_mm256_srai_epi32::<4>(sixteenths))));
    out.scale = match (finite, live) {
        (false, _) => f32::NAN,
        (true, false) => 0.0,
        (true, true) => unit,
    };
}

/// Lane = block.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn blocks(x: &[f32; COLS]) -> [__m256; 32] {
    let mut columns = [_mm256_setzero_ps(); 32];
    for quarter in 0..4 {
        let mut rows = [_mm256_setzero_ps(); 8];
        for block in 0..8 {
            rows[block] = load_ps(&x.as_chunks::<8>().0[4 * block + quarter]);
        }
        for (i, column) in transpose_ps(rows).into_iter().enumerate() {
            columns[8 * quarter + i] = column;
        }
    }
    columns
}

/// What each block's scale is at least, and whether all of them are finite.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn least_scales(columns: &[__m256; 32]) -> (__m256, bool) {
    let mut largest = _mm256_setzero_si256();
    let mut sums = [_mm256_setzero_ps(); 2];
    for i in 0..32 {
        let magnitude = _mm256_andnot_ps(_mm256_set1_ps(-0.0), columns[i]);
        // As integers, magnitudes keep their order and NaN is above infinity.
        largest = _mm256_max_epi32(largest, _mm256_castps_si256(magnitude));
        sums[i / 16] = _mm256_fmadd_ps(magnitude, _mm256_set1_ps(1.0 / FLAT), sums[i / 16]);
    }
    let most = _mm256_set1_epi32(f32::MAX.to_bits() as i32);
    let finite = _mm256_movemask_epi8(_mm256_cmpgt_epi32(largest, most)) == 0;
    let largest = _mm256_mul_ps(_mm256_castsi256_ps(largest), _mm256_set1_ps(1.0 / 127.0));
    (_mm256_max_ps(largest, _mm256_max_ps(sums[0], sums[1])), finite)
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn largest(x: __m256) -> f32 {
    let four = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
    let two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)))
}

/// The factors with the least squared error, of the least that will do and others up to 5.5 % above it, or that are next to it.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn best_factors(columns: &[__m256; 32], least: __m256, inverse: __m256) -> __m256 {
    let first = _mm256_max_ps(_mm256_ceil_ps(least), _mm256_set1_ps(1.0));
    let step = _mm256_max_ps(_mm256_mul_ps(first, _mm256_set1_ps(1.0 / 128.0)), _mm256_set1_ps(1.0));
    let mut best = first;
    let mut least = _mm256_set1_ps(f32::INFINITY);
    // Four at a time: more do not fit the registers.
    for four in 0..FACTORS / 4 {
        let mut factors = [first; 4];
        let mut inverses = [inverse; 4];
        for f in 0..4 {
            let index = _mm256_set1_ps((4 * four + f) as f32);
            factors[f] = _mm256_round_ps::<NEAREST>(_mm256_fmadd_ps(step, index, first));
            inverses[f] = _mm256_div_ps(inverse, factors[f]);
        }
        let mut squares = [_mm256_setzero_ps(); 4];
        for i in 0..32 {
            for f in 0..4 {
                let scaled = _mm256_mul_ps(columns[i], inverses[f]);
                let off = _mm256_sub_ps(scaled, _mm256_round_ps::<NEAREST>(scaled));
                squares[f] = _mm256_fmadd_ps(off, off, squares[f]);
            }
        }
        for f in 0..4 {
            let error = _mm256_mul_ps(squares[f], _mm256_mul_ps(factors[f], factors[f]));
            let less = _mm256_cmp_ps::<_CMP_LT_OQ>(error, least);
            best = _mm256_blendv_ps(best, factors[f], less);
            least = _mm256_blendv_ps(least, error, less);
        }
    }
    best
}

/// In even lanes the low words of it and of the next lane.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn pairs(lanes: __m256i) -> __m256i {
    let next = _mm256_shuffle_epi32::<0b10_11_00_01>(lanes);
    _mm256_blend_epi16::<0b1010_1010>(lanes, _mm256_slli_epi32::<16>(next))
}

/// The even lanes.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn even(lanes: __m256i) -> __m128i {
    let order = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6);
    _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(lanes, order))
}

#[inline]
#[target_feature(enable = "avx2")]
fn store_32(out: &mut [[i8; 4]], register: __m256i) {
    assert_eq!(out.len(), 8, "a register");
    // SAFETY: `out` is 32 writable bytes, and the instruction takes any alignment.
    unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), register) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store_16(out: &mut [[i16; 2]; 4], register: __m128i) {
    // SAFETY: `out` is 16 writable bytes, and the instruction takes any alignment.
    unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), register) }
}
