//! The table for AVX2 with FMA and F16C: every x86-64 processor since 2013 (Haswell), 2015 (Excavator).
#![allow(
    clippy::needless_range_loop,
    reason = "the index of a register tile meets several arrays, with constant bounds"
)]

mod attention;
pub(super) mod codebook;
mod decoded;
mod encode;
mod float;
mod float_loops;
pub(super) mod fold;
pub(super) mod format;
pub(super) mod halves;
pub(super) mod k_halves;
pub(super) mod k_quants;
pub(super) mod legacy;
pub(super) mod multiply;
pub(super) mod narrow;
pub(super) mod nvfp4;
pub(super) mod panel;
pub(super) mod panels;
mod probe;
mod q8;
mod quantize;
pub(super) mod registers;
pub(super) mod rows;
pub(super) mod signed;
pub(super) mod twos;
mod wide;

use candor_quant::Format;

pub(super) use self::attention::attention;
use self::decoded::Books;
pub(super) use self::encode::encoder;
pub(super) use self::float_loops::LOOPS;
use self::multiply::Multiply;
pub(super) use self::probe::PROBE;
use super::superblocks;
use crate::codebook as books;
use crate::{Kernels, MatKernels};

/// Proof that this processor has AVX2, FMA and F16C: the only way to the table, and so to its kernels.
#[derive(Clone, Copy)]
pub struct Avx2(());

impl Avx2 {
    /// Asks the processor and the operating system.
    pub fn detect() -> Option<Avx2> {
        let has =
            is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c");
        has.then_some(Avx2(()))
    }

    /// The table.
    pub fn kernels(self) -> &'static Kernels {
        static TABLE: Kernels =
            Kernels { name: "avx2", f32: LOOPS, mat, attention, probe: PROBE, batch: superblocks::avx2, exact: &EXACT };
        &TABLE
    }
}

/// The table without rounded inputs, for all that have AVX2.
pub(super) static EXACT: Kernels =
    Kernels { name: "avx2-f32", f32: LOOPS, mat: exact, attention, probe: PROBE, batch: |_| None, exact: &EXACT };

fn exact(format: Format) -> Option<MatKernels> {
    let float = |mat| Some(MatKernels { q8: false, mat });
    match format {
        Format::Q4_0 => float(float::decoded::<decoded::Q4_0>),
        Format::Q4_1 => float(float::decoded::<decoded::Q4_1>),
        Format::Q5_0 => float(float::decoded::<decoded::Q5_0>),
        Format::Q5_1 => float(float::decoded::<decoded::Q5_1>),
        Format::Q8_0 => float(float::decoded::<decoded::Q8_0>),
        Format::Iq4Nl => float(float::decoded::<decoded::Iq4Nl>),
        Format::Mxfp4 => float(float::decoded::<decoded::Mxfp4>),
        Format::Nvfp4 => float(float::decoded::<decoded::Nvfp4>),
        Format::Q2K => float(float::decoded::<decoded::Q2K>),
        Format::Q3K => float(float::decoded::<decoded::Q3K>),
        Format::Q4K => float(float::decoded::<decoded::Q4K>),
        Format::Q5K => float(float::decoded::<decoded::Q5K>),
        Format::Q6K => float(float::decoded::<decoded::Q6K>),
        Format::Iq4Xs => float(float::decoded::<decoded::Iq4Xs>),
        Format::Iq1S => float(float::decoded::<Books<books::Iq1S>>),
        Format::Iq1M => float(float::decoded::<Books<books::Iq1M>>),
        Format::Iq2Xxs => float(float::decoded::<Books<books::Iq2Xxs>>),
        Format::Iq2Xs => float(float::decoded::<Books<books::Iq2Xs>>),
        Format::Iq2S => float(float::decoded::<Books<books::Iq2S>>),
        Format::Iq3Xxs => float(float::decoded::<Books<books::Iq3Xxs>>),
        Format::Iq3S => float(float::decoded::<Books<books::Iq3S>>),
        Format::Tq1_0 => float(float::decoded::<Books<books::Tq1_0>>),
        Format::Tq2_0 => float(float::decoded::<decoded::Tq2_0>),
        _ => mat(format),
    }
}

/// Quantized weights by AVX2's products.
pub(super) fn mat(format: Format) -> Option<MatKernels> {
    kernels::<twos::Twos>(format)
}

/// The kernels of a format, quantized weights by the products of `M`.
pub(super) fn kernels<M: Multiply>(format: Format) -> Option<MatKernels> {
    let q8 = |mat| Some(MatKernels { q8: true, mat });
    let float = |mat| Some(MatKernels { q8: false, mat });
    match format {
        Format::F32 => float(float::mat::<float::F32>),
        Format::F16 => float(float::mat::<float::F16>),
        Format::Bf16 => float(float::mat::<float::Bf16>),
        Format::Q4_0 => q8(q8::mat::<M, legacy::Q4_0>),
        Format::Q4_1 => q8(q8::mat::<M, legacy::Q4_1>),
        Format::Q5_0 => q8(q8::mat::<M, legacy::Q5_0>),
        Format::Q5_1 => q8(q8::mat::<M, legacy::Q5_1>),
        Format::Q8_0 => q8(q8::mat::<M, signed::Q8_0>),
        Format::Iq4Nl => q8(q8::mat::<M, signed::Iq4Nl>),
        Format::Mxfp4 => q8(q8::mat::<M, legacy::Mxfp4>),
        Format::Nvfp4 => q8(q8::mat::<M, nvfp4::Nvfp4>),
        Format::Q2K => q8(q8::mat::<M, k_halves::Q2K>),
        Format::Q3K => q8(q8::mat::<M, k_halves::Q3K>),
        Format::Q4K => q8(q8::mat::<M, k_quants::Q4K>),
        Format::Q5K => q8(q8::mat::<M, k_quants::Q5K>),
        Format::Q6K => q8(q8::mat::<M, k_halves::Q6K>),
        Format::Iq4Xs => q8(q8::mat::<M, signed::Iq4Xs>),
        Format::Iq1S => q8(q8::mat::<M, books::Iq1S>),
        Format::Iq1M => q8(q8::mat::<M, books::Iq1M>),
        Format::Iq2Xxs => q8(q8::mat::<M, books::Iq2Xxs>),
        Format::Iq2Xs => q8(q8::mat::<M, books::Iq2Xs>),
        Format::Iq2S => q8(q8::mat::<M, books::Iq2S>),
        Format::Iq3Xxs => q8(q8::mat::<M, books::Iq3Xxs>),
        Format::Iq3S => q8(q8::mat::<M, books::Iq3S>),
        Format::Tq1_0 => q8(q8::mat::<M, books::Tq1_0>),
        Format::Tq2_0 => q8(q8::mat::<M, books::Tq2_0>),
        _ => (Kernels::scalar().mat)(format),
    }
}
