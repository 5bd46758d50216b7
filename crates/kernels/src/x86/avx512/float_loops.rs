//! The loops of `lanes` compiled for AVX-512; halves are converted by F16C. Not a second definition of anything.

use std::arch::x86_64::{_MM_FROUND_TO_NEAREST_INT, _mm256_cvtph_ps, _mm256_cvtps_ph};

use candor_quant::half;

use crate::lanes::{self, WIDTH};
use crate::x86::avx2::encoder;
use crate::x86::avx2::registers::{load_halves, load_ps, store_halves, store_ps};
use crate::{F32Kernels, Function, KeyScan, Q8RowMut, Scan, function, scan};

/// Wraps bodies in functions with the features on. FMA is left off: contraction would change bits.
macro_rules! compile {
    ($($name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)? = $body:expr;)*) => {
        pub(super) const LOOPS: F32Kernels = F32Kernels { $($name,)* encode: encoder };

        $(fn $name($($argument: $type),*) $(-> $result)? {
            #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,f16c")]
            fn compiled($($argument: $type),*) $(-> $result)? { $body }
            // SAFETY: only the table leads here, and only an `Avx512` to the table: the processor has these features.
            unsafe { compiled($($argument),*) }
        })*
    };
}

compile! {
    dot(x: &[f32], y: &[f32]) -> f32 = lanes::dot(x, y);
    dot_f16(x: &[f32], y: &[u16]) -> f32 = lanes::dot_f16(x, y, |halves| widen(halves));
    axpy(out: &mut [f32], a: f32, x: &[f32]) = lanes::axpy(out, a, x);
    axpy_f16(out: &mut [f32], a: f32, x: &[u16]) = lanes::axpy_f16(out, a, x, |halves| widen(halves));
    scale(out: &mut [f32], a: f32) = lanes::scale(out, a);
    max(x: &[f32]) -> f32 = lanes::max(x);
    exp_sum(x: &mut [f32], max: f32) -> f32 = super::exp::exp_sum(x, max);
    rms_norm(out: &mut [f32], x: &[f32], w: &[f32], eps: f32) = lanes::rms_norm(out, x, w, eps);
    silu(x: &mut [f32]) = lanes::silu(x);
    swiglu(gate: &mut [f32], up: &[f32]) = super::exp::swiglu(gate, up);
    function(x: &mut [f32], f: Function) = function::function(x, f);
    add(x: &mut [f32], y: &[f32]) = lanes::add(x, y);
    mul(x: &mut [f32], y: &[f32]) = lanes::mul(x, y);
    scan(out: &mut [f32], state: &mut [f32], row: Scan<'_>) = scan::scan(out, state, row);
    scan_keys(out: &mut [f32], state: &mut [f32], row: KeyScan<'_>) = scan::scan_keys(out, state, row);
    to_f16(out: &mut [u16], x: &[f32]) = narrow(out, x);
    quantize_q8(out: Q8RowMut<'_>, x: &[f32]) = super::quantize::quantize_q8(out, x);
}

/// 16 halves, exactly.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,f16c")]
fn widen(halves: &[u16; WIDTH]) -> [f32; WIDTH] {
    let mut wide = [0.0; WIDTH];
    for (halves, wide) in halves.as_chunks::<8>().0.iter().zip(wide.as_chunks_mut::<8>().0) {
        store_ps(wide, _mm256_cvtph_ps(load_halves(halves)));
    }
    wide
}

/// Ties to even, as `candor_quant::half` does.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,f16c")]
fn narrow(out: &mut [u16], x: &[f32]) {
    assert_eq!(out.len(), x.len(), "to_f16");
    let ((out, out_rest), (x, x_rest)) = (out.as_chunks_mut::<8>(), x.as_chunks::<8>());
    for (out, x) in out.iter_mut().zip(x) {
        store_halves(out, _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(load_ps(x)));
    }
    for (out, &x) in out_rest.iter_mut().zip(x_rest) {
        *out = half::f32_to_f16(x);
    }
}
