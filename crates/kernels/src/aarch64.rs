//! Tables for 64-bit ARM: NEON, which every such processor has, then the byte dot products of ARMv8.2, then the matrix
//! products of ARMv8.6. They differ in how integers are multiplied (`integer`) and in nothing else.
#![allow(
    clippy::needless_range_loop,
    reason = "the index of a register tile meets several arrays, with constant bounds"
)]

mod attention;
mod bits;
mod dotprod;
mod float;
mod float_loops;
mod fold;
mod format;
mod i8mm;
mod instructions;
mod integer;
mod k_halves;
mod k_quants;
mod legacy;
mod neon;
mod panel;
mod panels;
mod q8;
mod registers;
mod rows;
mod tile;

use candor_quant::Format;

use crate::exact::by_type;
use crate::{Kernels, MatKernels, scalar};
use integer::Integer;

pub(crate) use dotprod::Dotprod;
pub(crate) use i8mm::I8mm;
pub(crate) use neon::Neon;

/// A table. The probe is compiled from plain Rust: NEON is part of the target.
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

/// The table without rounded inputs, for all that have NEON.
static EXACT: Kernels = table("neon-f32", exact);

fn exact(format: Format) -> Option<MatKernels> {
    let blocks = by_type!(format, D => MatKernels { q8: false, mat: float::decoded::<D> });
    blocks.or_else(|| mat::<Neon>(format))
}

/// The kernels of a format, its integers multiplied by `I`.
fn mat<I: Integer>(format: Format) -> Option<MatKernels> {
    let q8 = |mat| Some(MatKernels { q8: true, mat });
    let float = |mat| Some(MatKernels { q8: false, mat });
    match format {
        Format::F32 => float(float::mat::<float::F32, _>),
        Format::F16 => float(float::mat::<float::F16, _>),
        Format::Bf16 => float(float::mat::<float::Bf16, _>),
        Format::Q4_0 => q8(q8::mat::<I, legacy::Q4_0, _>),
        Format::Q4_1 => q8(q8::mat::<I, legacy::Q4_1, _>),
        Format::Q5_0 => q8(q8::mat::<I, legacy::Q5_0, _>),
        Format::Q5_1 => q8(q8::mat::<I, legacy::Q5_1, _>),
        Format::Q8_0 => q8(q8::mat::<I, legacy::Q8_0, _>),
        Format::Iq4Nl => q8(q8::mat::<I, legacy::Iq4Nl, _>),
        Format::Mxfp4 => q8(q8::mat::<I, legacy::Mxfp4, _>),
        Format::Q2K => q8(q8::mat::<I, k_halves::Q2K, _>),
        Format::Q3K => q8(q8::mat::<I, k_halves::Q3K, _>),
        Format::Q4K => q8(q8::mat::<I, k_quants::Q4K, _>),
        Format::Q5K => q8(q8::mat::<I, k_quants::Q5K, _>),
        Format::Q6K => q8(q8::mat::<I, k_halves::Q6K, _>),
        Format::Iq4Xs => q8(q8::mat::<I, k_quants::Iq4Xs, _>),
        _ => (Kernels::scalar().mat)(format),
    }
}
