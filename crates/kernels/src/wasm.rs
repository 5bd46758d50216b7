//! Tables for WebAssembly: simd128, and relaxed-simd, which multiplies bytes faster. They differ in that (`multiply`) and in
//! nothing else.
//!
//! A module can't ask what the engine has: it does not start where an instruction is unknown. So a table is in the modules that
//! are compiled for it (`-C target-feature=+simd128` or `+relaxed-simd`), and no function here needs a proof of it.
//!
//! There is no fused multiplication. All tables of WebAssembly, the scalar one too, round products and sums one by one and in the
//! same order: they give the same bits.
#![allow(
    clippy::needless_range_loop,
    reason = "the index of a register tile meets several arrays, with constant bounds"
)]

mod attention;
mod bits;
mod float;
mod float_loops;
mod fold;
mod format;
mod half_table;
mod k_halves;
mod k_quants;
mod legacy;
mod multiply;
mod panel;
mod panels;
mod q8;
mod registers;
mod rows;
mod tile;

use candor_quant::Format;

use crate::exact::by_type;
use crate::{Kernels, MatKernels, scalar};
use multiply::Multiply;

/// The table of `i32x4.dot_i16x8_s`.
pub(crate) static SIMD128: Kernels = table("simd128", mat::<multiply::Words>);

/// The table of `i16x8.relaxed_dot_i8x16_i7x16_s`.
#[cfg(target_feature = "relaxed-simd")]
pub(crate) static RELAXED: Kernels = table("relaxed-simd", mat::<multiply::RelaxedBytes>);

/// The table without rounded inputs, for both.
static EXACT: Kernels = table("simd128-f32", exact);

/// A table. The probe is compiled from plain Rust: the instructions are part of the target.
const fn table(name: &'static str, mat: fn(Format) -> Option<MatKernels>) -> Kernels {
    Kernels {
        name,
        f32: float_loops::LOOPS,
        mat,
        attention: attention::attention,
        probe: scalar::probe::PROBE,
        batch: |_| None,
        exact: &EXACT,
    }
}

fn exact(format: Format) -> Option<MatKernels> {
    let blocks = by_type!(format, D => MatKernels { q8: false, mat: float::mat::<D> });
    blocks.or_else(|| mat::<multiply::Words>(format))
}

/// The kernels of a format, its bytes multiplied by `M`.
fn mat<M: Multiply>(format: Format) -> Option<MatKernels> {
    let q8 = |mat| Some(MatKernels { q8: true, mat });
    let float = |mat| Some(MatKernels { q8: false, mat });
    match format {
        Format::F32 => float(float::mat::<scalar::float::F32>),
        Format::F16 => float(float::mat::<float::F16>),
        Format::Bf16 => float(float::mat::<float::Bf16>),
        Format::Q4_0 => q8(q8::mat::<M, legacy::Q4_0, _>),
        Format::Q4_1 => q8(q8::mat::<M, legacy::Q4_1, _>),
        Format::Q5_0 => q8(q8::mat::<M, legacy::Q5_0, _>),
        Format::Q5_1 => q8(q8::mat::<M, legacy::Q5_1, _>),
        Format::Q8_0 => q8(q8::mat::<M, legacy::Q8_0, _>),
        Format::Iq4Nl => q8(q8::mat::<M, legacy::Iq4Nl, _>),
        Format::Mxfp4 => q8(q8::mat::<M, legacy::Mxfp4, _>),
        Format::Q2K => q8(q8::mat::<M, k_halves::Q2K, _>),
        Format::Q3K => q8(q8::mat::<M, k_halves::Q3K, _>),
        Format::Q4K => q8(q8::mat::<M, k_quants::Q4K, _>),
        Format::Q5K => q8(q8::mat::<M, k_quants::Q5K, _>),
        Format::Q6K => q8(q8::mat::<M, k_halves::Q6K, _>),
        Format::Iq4Xs => q8(q8::mat::<M, k_quants::Iq4Xs, _>),
        _ => (Kernels::scalar().mat)(format),
    }
}
