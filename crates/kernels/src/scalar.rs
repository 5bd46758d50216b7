//! The table that every machine has: plain Rust, no intrinsics, no `unsafe`. What the others are tested against.

pub(crate) mod attention;
mod codebook;
pub(crate) mod float;
mod k_quants;
mod legacy;
pub(crate) mod probe;
mod q8;

use candor_quant::{Format, half};

use crate::array::Each;
use crate::codebook as books;
use crate::exact::by_type;

use crate::{F32Kernels, Kernels, MatKernels, function, lanes, scan};

/// The scalar table.
pub(crate) static SCALAR: Kernels = Kernels {
    name: "scalar",
    f32: LOOPS,
    mat,
    attention: attention::attention,
    probe: probe::PROBE,
    batch: |_| None,
    exact: &EXACT,
};

static EXACT: Kernels = Kernels {
    name: "scalar-f32",
    f32: LOOPS,
    mat: exact,
    attention: attention::attention,
    probe: probe::PROBE,
    batch: |_| None,
    exact: &EXACT,
};

/// The loops over f32.
pub(crate) const LOOPS: F32Kernels = F32Kernels {
    dot: lanes::dot,
    dot_f16,
    axpy: lanes::axpy,
    axpy_f16,
    scale: lanes::scale,
    max: lanes::max,
    exp_sum: lanes::exp_sum,
    rms_norm: lanes::rms_norm,
    silu: lanes::silu,
    swiglu: lanes::swiglu,
    function: function::function,
    add: lanes::add,
    mul: lanes::mul,
    scan: scan::scan,
    scan_keys: scan::scan_keys,
    to_f16,
    quantize_q8: lanes::quantize_q8,
    encode: |_| None,
};

fn mat(format: Format) -> Option<MatKernels> {
    let q8 = |mat| Some(MatKernels { q8: true, mat });
    let float = |mat| Some(MatKernels { q8: false, mat });
    match format {
        Format::F32 => float(float::mat::<float::F32>),
        Format::F16 => float(float::mat::<float::F16>),
        Format::Bf16 => float(float::mat::<float::Bf16>),
        Format::Q4_0 => q8(q8::mat::<legacy::Q4_0>),
        Format::Q4_1 => q8(q8::mat::<legacy::Q4_1>),
        Format::Q5_0 => q8(q8::mat::<legacy::Q5_0>),
        Format::Q5_1 => q8(q8::mat::<legacy::Q5_1>),
        Format::Q8_0 => q8(q8::mat::<legacy::Q8_0>),
        Format::Iq4Nl => q8(q8::mat::<legacy::Iq4Nl>),
        Format::Mxfp4 => q8(q8::mat::<legacy::Mxfp4>),
        Format::Nvfp4 => q8(q8::mat::<legacy::Nvfp4>),
        Format::Q2K => q8(q8::mat::<k_quants::Q2K>),
        Format::Q3K => q8(q8::mat::<k_quants::Q3K>),
        Format::Q4K => q8(q8::mat::<k_quants::Q4K>),
        Format::Q5K => q8(q8::mat::<k_quants::Q5K>),
        Format::Q6K => q8(q8::mat::<k_quants::Q6K>),
        Format::Iq4Xs => q8(q8::mat::<k_quants::Iq4Xs>),
        Format::Iq1S => q8(q8::mat::<books::Iq1S>),
        Format::Iq1M => q8(q8::mat::<books::Iq1M>),
        Format::Iq2Xxs => q8(q8::mat::<books::Iq2Xxs>),
        Format::Iq2Xs => q8(q8::mat::<books::Iq2Xs>),
        Format::Iq2S => q8(q8::mat::<books::Iq2S>),
        Format::Iq3Xxs => q8(q8::mat::<books::Iq3Xxs>),
        Format::Iq3S => q8(q8::mat::<books::Iq3S>),
        Format::Tq1_0 => q8(q8::mat::<books::Tq1_0>),
        Format::Tq2_0 => q8(q8::mat::<books::Tq2_0>),
        _ => None,
    }
}

/// Every format without rounded inputs.
pub(crate) fn exact(format: Format) -> Option<MatKernels> {
    let blocks = by_type!(format, D => MatKernels { q8: false, mat: float::mat::<D> });
    blocks.or_else(|| mat(format))
}

fn widen(halves: &[u16; lanes::WIDTH]) -> [f32; lanes::WIDTH] {
    halves.each(half::f16_to_f32)
}

fn dot_f16(x: &[f32], y: &[u16]) -> f32 {
    lanes::dot_f16(x, y, widen)
}

fn axpy_f16(out: &mut [f32], a: f32, x: &[u16]) {
    lanes::axpy_f16(out, a, x, widen);
}

fn to_f16(out: &mut [u16], x: &[f32]) {
    assert_eq!(out.len(), x.len(), "to_f16");
    for (out, &x) in out.iter_mut().zip(x) {
        *out = half::f32_to_f16(x);
    }
}
