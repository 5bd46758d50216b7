//! Exponentials of a softmax and of gates, the bits those of `lanes`: up to eight registers go side by side,
//! since one waits for itself most of the time, and rows that do not fill a register are masked.

use std::arch::x86_64::*;

use super::registers::{load_ps, store_ps};
use crate::array::Each;
use crate::lanes::{self, LN2_HIGH, LN2_LOW, POLYNOMIAL, WIDTH};

/// As `lanes::exp_sum`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
pub fn exp_sum(x: &mut [f32], max: f32) -> f32 {
    let max = _mm512_set1_ps(max);
    let mut sums = _mm512_setzero_ps();
    let (eights, rest) = x.as_chunks_mut::<{ 8 * WIDTH }>();
    for eight in eights {
        sums = registers::<8>(eight, max, sums);
    }
    let (fours, rest) = rest.as_chunks_mut::<{ 4 * WIDTH }>();
    for four in fours {
        sums = registers::<4>(four, max, sums);
    }
    let (ones, rest) = rest.as_chunks_mut::<WIDTH>();
    for one in ones {
        sums = registers::<1>(one, max, sums);
    }
    if !rest.is_empty() {
        let live = (1u16 << rest.len()) - 1;
        // SAFETY: as many floats are readable as the mask has bits; the others are not touched.
        let last = unsafe { _mm512_maskz_loadu_ps(live, rest.as_ptr()) };
        let [e] = exp([_mm512_sub_ps(last, max)]);
        // SAFETY: as above, writable.
        unsafe { _mm512_mask_storeu_ps(rest.as_mut_ptr(), live, e) };
        sums = _mm512_mask_add_ps(sums, live, sums, e);
    }
    let mut lanes = [0.0; WIDTH];
    store_ps(&mut lanes, sums);
    lanes::tree(lanes)
}

/// As `lanes::swiglu`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
pub fn swiglu(gate: &mut [f32], up: &[f32]) {
    assert_eq!(gate.len(), up.len(), "swiglu");
    let (gates, gate) = gate.as_chunks_mut::<{ 4 * WIDTH }>();
    let (ups, up) = up.as_chunks::<{ 4 * WIDTH }>();
    for (gate, up) in gates.iter_mut().zip(ups) {
        gated(gate, up);
    }
    lanes::swiglu(gate, up);
}

/// Four registers of gates, side by side.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
fn gated(gate: &mut [f32; 4 * WIDTH], up: &[f32; 4 * WIDTH]) {
    let (gate, up) = (gate.as_chunks_mut::<WIDTH>().0, up.as_chunks::<WIDTH>().0);
    let (mut gates, mut ups) = ([_mm512_setzero_ps(); 4], [_mm512_setzero_ps(); 4]);
    for i in 0..4 {
        (gates[i], ups[i]) = (load_ps(&gate[i]), load_ps(&up[i]));
    }
    gates = gate_registers(gates, ups);
    for i in 0..4 {
        store_ps(&mut gate[i], gates[i]);
    }
}

/// [`swiglu`] of registers.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
pub fn gate_registers<const N: usize>(gate: [__m512; N], up: [__m512; N]) -> [__m512; N] {
    // The sign bit, also of zero and NaN.
    let e = exp(gate.each(|gate| _mm512_xor_ps(gate, _mm512_set1_ps(-0.0))));
    let mut out = gate;
    for i in 0..N {
        let silu = _mm512_div_ps(gate[i], _mm512_add_ps(_mm512_set1_ps(1.0), e[i]));
        out[i] = _mm512_mul_ps(silu, up[i]);
    }
    out
}

/// `N` registers of scores; gives `sums` with them added, one after the other.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
fn registers<const N: usize>(x: &mut [f32], max: __m512, mut sums: __m512) -> __m512 {
    let groups = &mut x.as_chunks_mut::<WIDTH>().0[..N];
    let mut e = [max; N];
    for i in 0..N {
        e[i] = _mm512_sub_ps(load_ps(&groups[i]), max);
    }
    e = exp(e);
    for i in 0..N {
        store_ps(&mut groups[i], e[i]);
        sums = _mm512_add_ps(sums, e[i]);
    }
    sums
}

/// As `lanes::exp`. Two of its factors are one instruction here, which rounds once as they do: the first leaves no number
/// below the normal range.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
fn exp<const N: usize>(x: [__m512; N]) -> [__m512; N] {
    let all = |value: f32| _mm512_set1_ps(value);
    // A comparison with NaN gives the second operand, which is the number itself.
    let x = x.each(|x| _mm512_max_ps(all(-104.0), _mm512_min_ps(all(89.0), x)));
    let n = x.each(|x| {
        let product = _mm512_mul_ps(x, all(std::f32::consts::LOG2_E));
        _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(product)
    });
    let mut r = x;
    for i in 0..N {
        r[i] = _mm512_sub_ps(r[i], _mm512_mul_ps(n[i], all(LN2_HIGH)));
    }
    for i in 0..N {
        r[i] = _mm512_sub_ps(r[i], _mm512_mul_ps(n[i], all(LN2_LOW)));
    }
    let mut p = [all(POLYNOMIAL[0]); N];
    for factor in &POLYNOMIAL[1..] {
        for i in 0..N {
            p[i] = _mm512_add_ps(_mm512_mul_ps(p[i], r[i]), all(*factor));
        }
    }
    for i in 0..N {
        let square = _mm512_mul_ps(r[i], r[i]);
        p[i] = _mm512_add_ps(_mm512_add_ps(_mm512_mul_ps(p[i], square), r[i]), all(1.0));
        p[i] = _mm512_scalef_ps(p[i], n[i]);
    }
    p
}
