//! Blocks multiplied in vector registers: a dword of a weight row is broadcast against 16 inputs.

use std::arch::x86_64::*;

use super::lines::{load, store};
use super::{Begin, Engine, Form, Operands, SUMS, TILE};
use crate::Line;
use crate::array::Each;

/// An engine: its form, the inputs from which on it pays (measured on Zen 5), the features that it needs, and what adds products of two dwords to each of 16 sums.
macro_rules! engine {
    ($name:ident, $block:ident, $tile:ident: $form:expr, least $least:literal, $features:literal, ($sum:ident, $w:ident, $x:ident) => $add:expr) => {
        impl Engine for $name {
            const LEAST: usize = $least;
            type Ready = ();

            unsafe fn ready() {}

            unsafe fn multiply(_: &(), sums: &mut [Line; SUMS], operands: Operands<'_>, form: Form, begin: Begin) {
                assert_eq!(form, $form, "the form that this engine multiplies");
                // SAFETY: the caller has these features.
                unsafe { $block(sums, operands, begin) }
            }
        }

        #[target_feature(enable = $features)]
        fn $block(sums: &mut [Line; SUMS], Operands { w, x, steps, ahead }: Operands<'_>, begin: Begin) {
            let w = w.as_chunks().0;
            let x = x.as_chunks().0;
            assert_eq!(w.len(), steps, "steps of weights");
            for line in 0..SUMS {
                _mm_prefetch::<_MM_HINT_T0>(ahead.wrapping_add(line).cast());
            }
            if x.len() == steps {
                $tile::<16, 1>(sums, 0, w, x, begin);
                $tile::<16, 1>(sums, 16, w, x, begin);
            } else {
                assert_eq!(x.len(), 2 * steps, "steps of inputs");
                $tile::<12, 2>(sums, 0, w, x, begin);
                $tile::<12, 2>(sums, 12, w, x, begin);
                $tile::<8, 2>(sums, 24, w, x, begin);
            }
        }

        /// `R` weight rows from the `first` and `T` tiles of inputs.
        #[target_feature(enable = $features)]
        fn $tile<const R: usize, const T: usize>(
            sums: &mut [Line; SUMS],
            first: usize,
            w: &[[Line; 2 * TILE]],
            x: &[[Line; TILE]],
            begin: Begin,
        ) {
            let place = |r: usize, t: usize| ((first + r) / TILE * 2 + t) * TILE + (first + r) % TILE;
            let mut totals = [[_mm512_setzero_ps(); T]; R];
            if begin == Begin::Sums {
                for r in 0..R {
                    for t in 0..T {
                        totals[r][t] = _mm512_castsi512_ps(load(&sums[place(r, t)]));
                    }
                }
            }
            for (w, x) in w.iter().zip(x.as_chunks::<T>().0) {
                let w: &[Line; R] = w[first..].first_chunk().expect("rows of a block");
                for k in 0..TILE {
                    let mut inputs = [_mm512_setzero_si512(); T];
                    for t in 0..T {
                        inputs[t] = load(&x[t][k]);
                    }
                    for r in 0..R {
                        let $w = _mm512_set1_epi32(w[r].0[k].cast_signed());
                        for t in 0..T {
                            let ($sum, $x) = (totals[r][t], inputs[t]);
                            totals[r][t] = $add;
                        }
                    }
                }
            }
            for r in 0..R {
                for t in 0..T {
                    store(&mut sums[place(r, t)], _mm512_castps_si512(totals[r][t]));
                }
            }
        }
    };
}

/// Floats by fused multiplication and addition.
pub struct Floats;

engine!(Floats, floats, floats_tile: Form::F32, least 24, "avx512f", (sum, w, x) => {
    _mm512_fmadd_ps(_mm512_castsi512_ps(w), _mm512_castsi512_ps(x), sum)
});

/// Pairs of bfloat16, with sums in floats.
pub struct Pairs;

engine!(Pairs, pairs, pairs_tile: Form::Bf16, least 8, "avx512f,avx512bf16", (sum, w, x) => {
    // SAFETY: both are 64 bytes of plain numbers.
    let [w, x] = [w, x].each(|pairs| unsafe { std::mem::transmute::<__m512i, __m512bh>(pairs) });
    _mm512_dpbf16_ps(sum, w, x)
});
