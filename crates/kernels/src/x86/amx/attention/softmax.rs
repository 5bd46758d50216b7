//! Scores on their way to weights, in whole registers: what a query does not see is masked, and there is no tail.

use std::arch::x86_64::*;
use std::ops::Range;

use crate::array::Each;
use crate::attention::block::{BLOCK, GROUP, PAIR, PAIR_LINES, Softmax, WEIGHT_LINES};
use crate::lanes::{self, POLYNOMIAL, ROUNDER};
use crate::x86::batch::lines::{load_ps, store, store_ps};
use crate::{Line, PANEL};

/// What lower ones count as: their exponentials would leave the normal range, where they take many times as long.
const LEAST: f32 = -87.0;

/// A query's scores, panel by panel.
type Row = [[f32; PANEL]; BLOCK / PANEL];
/// 32 positions of a group's weights, large halves and then small ones: a lane has two positions, 16 apart.
type Step = [Line; PAIR_LINES];

pub fn softmax(weights: &mut [Line], scores: &[f32], seen: &[Range<usize>], pairs: Range<usize>) -> Softmax {
    assert!(weights.len() == WEIGHT_LINES && scores.len() == GROUP * BLOCK, "softmax: room");
    let within =
        |seen: &Range<usize>| seen.is_empty() || pairs.start * PAIR <= seen.start && seen.end <= pairs.end * PAIR;
    assert!(seen.len() <= GROUP && seen.iter().all(within), "softmax: positions");
    let (steps, rows) = (&mut weights.as_chunks_mut().0[pairs.clone()], scores.as_chunks().0.as_chunks().0);
    // SAFETY: only AMX's table leads here.
    unsafe { group(steps, rows, seen, pairs.start) }
}

/// The largest scores of all queries first, then the weights: one query's need not wait for another's.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
fn group(steps: &mut [Step], rows: &[Row], seen: &[Range<usize>], first: usize) -> Softmax {
    let mut all = [(f32::NEG_INFINITY, 0.0); GROUP];
    for ((max, _), (row, seen)) in all.iter_mut().zip(rows.iter().zip(seen)) {
        *max = largest(row, seen);
    }
    for (q, (max, sum)) in all.iter_mut().enumerate() {
        if *max > f32::NEG_INFINITY {
            *sum = query(steps, &rows[q], (q, first), (&seen[q], *max));
        } else {
            steps.iter_mut().for_each(|step| (step[q], step[GROUP + q]) = (Line::ZERO, Line::ZERO));
            // Scores that are no numbers are left out of the largest.
            let bad = seen.get(q).is_some_and(|seen| rows[q].as_flattened()[seen.clone()].iter().any(|x| x.is_nan()));
            *sum = if bad { f32::NAN } else { 0.0 };
        }
    }
    all
}

/// The lanes of a panel that are seen.
#[inline]
fn live(panel: usize, seen: &Range<usize>) -> __mmask16 {
    let place = |position: usize| position.saturating_sub(panel * PANEL).min(PANEL);
    ((1u32 << place(seen.end)) - (1 << place(seen.start))) as __mmask16
}

/// Whether pairs are seen as a whole: then nothing need be masked.
#[inline]
fn whole(pairs: Range<usize>, seen: &Range<usize>) -> bool {
    seen.start <= pairs.start * PAIR && pairs.end * PAIR <= seen.end
}

/// The largest score that is seen, NaN left out.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
fn largest(row: &Row, seen: &Range<usize>) -> f32 {
    let mut most = [_mm512_set1_ps(f32::NEG_INFINITY); 2];
    for pair in seen.start / PAIR..seen.end.div_ceil(PAIR) {
        for side in 0..2 {
            let panel = 2 * pair + side;
            // A comparison with NaN gives the second operand.
            most[side] = match whole(pair..pair + 1, seen) {
                true => _mm512_max_ps(load_ps(&row[panel]), most[side]),
                false => _mm512_mask_max_ps(most[side], live(panel, seen), load_ps(&row[panel]), most[side]),
            };
        }
    }
    _mm512_reduce_max_ps(_mm512_max_ps(most[0], most[1]))
}

/// The weights of a query; gives their sum. The steps begin with pair `first`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
fn query(steps: &mut [Step], row: &Row, (q, first): (usize, usize), (seen, max): (&Range<usize>, f32)) -> f32 {
    let (max, mut sums) = (_mm512_set1_ps(max), _mm512_setzero_ps());
    let (twos, one) = steps.as_chunks_mut::<2>();
    for (i, two) in twos.iter_mut().enumerate() {
        sums = registers::<4>(two, row, (q, first + 2 * i), (seen, max), sums);
    }
    if !one.is_empty() {
        sums = registers::<2>(one, row, (q, first + 2 * twos.len()), (seen, max), sums);
    }
    let mut lanes = [0.0; PANEL];
    store_ps(&mut lanes, sums);
    lanes::tree(lanes)
}

/// `N` registers of scores, from pair `first` on; gives `sums` with their exponentials added, one after the other.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
fn registers<const N: usize>(
    steps: &mut [Step],
    row: &Row,
    (q, first): (usize, usize),
    (seen, max): (&Range<usize>, __m512),
    mut sums: __m512,
) -> __m512 {
    let mut x = [max; N];
    for i in 0..N {
        // NaN is kept: it is the second operand of the comparison.
        x[i] = _mm512_max_ps(_mm512_set1_ps(LEAST), _mm512_sub_ps(load_ps(&row[2 * first + i]), max));
    }
    x = exp(x);
    let all = whole(first..first + N / 2, seen);
    for i in 0..N {
        if !all {
            x[i] = _mm512_maskz_mov_ps(live(2 * first + i, seen), x[i]);
        }
        sums = _mm512_add_ps(sums, x[i]);
    }
    for i in 0..N / 2 {
        let [large, small] = halves(x[2 * i], x[2 * i + 1]);
        store(&mut steps[i][q], large);
        store(&mut steps[i][GROUP + q], small);
    }
    sums
}

/// `e^x` for `x` of `LEAST` to 0 within 2^-20, which halves hide: `lanes::exp` with a term less and `ln 2` in one piece.
/// No result is below the normal range.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
fn exp<const N: usize>(x: [__m512; N]) -> [__m512; N] {
    let all = |value: f32| _mm512_set1_ps(value);
    let shifted = x.each(|x| _mm512_fmadd_ps(x, all(std::f32::consts::LOG2_E), all(ROUNDER)));
    let n = shifted.each(|shifted| _mm512_sub_ps(shifted, all(ROUNDER)));
    let (mut r, mut p) = (x, [all(POLYNOMIAL[1]); N]);
    for i in 0..N {
        r[i] = _mm512_fnmadd_ps(n[i], all(std::f32::consts::LN_2), r[i]);
    }
    for factor in POLYNOMIAL[2..].iter().chain(&[1.0; 2]) {
        for i in 0..N {
            p[i] = _mm512_fmadd_ps(p[i], r[i], all(*factor));
        }
    }
    for i in 0..N {
        p[i] = _mm512_scalef_ps(p[i], n[i]);
    }
    p
}

/// Weights as large and small halves, `a` in the low words and `b` in the high ones: rounded to the nearest, from halfway on to the larger.
/// NaN may become a number: the sum of the weights is NaN then.
#[inline]
#[target_feature(enable = "avx512f")]
fn halves(a: __m512, b: __m512) -> [__m512i; 2] {
    let upper = _mm512_set1_epi32(0xffff_0000_u32 as i32);
    let rounded = |x: __m512| _mm512_add_epi32(_mm512_castps_si512(x), _mm512_set1_epi32(0x8000));
    let rest = |x: __m512| _mm512_sub_ps(x, _mm512_castsi512_ps(_mm512_and_si512(rounded(x), upper)));
    /// `a | b & c`
    const OR_AND: i32 = 0xf8;
    let words = |a, b| _mm512_ternarylogic_epi32::<OR_AND>(_mm512_srli_epi32::<16>(rounded(a)), rounded(b), upper);
    [words(a, b), words(rest(a), rest(b))]
}
