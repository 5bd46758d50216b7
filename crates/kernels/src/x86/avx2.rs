//! The table for AVX2 with FMA and F16C: every x86-64 processor since 2013 (Haswell), 2015 (Excavator).

mod float_loops;
mod fold;
mod format;
mod halves;
mod k_quants;
mod narrow;
mod panel;
mod panels;
mod q8;
mod registers;
mod rows;
mod wide;

use candor_quant::Format;

use crate::{Kernels, MatKernels};

/// Proof that this processor has AVX2, FMA and F16C: the only way to the table, and so to its kernels.
#[derive(Clone, Copy)]
pub(crate) struct Avx2(());

impl Avx2 {
    /// Asks the processor and the operating system.
    pub(crate) fn detect() -> Option<Avx2> {
        let has =
            is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c");
        has.then_some(Avx2(()))
    }

    /// The table.
    pub(crate) fn kernels(self) -> &'static Kernels {
        static TABLE: Kernels = Kernels { name: "avx2", f32: float_loops::LOOPS, mat };
        &TABLE
    }
}

fn mat(format: Format) -> Option<MatKernels> {
    let q8 = |mat| Some(MatKernels { q8: true, mat });
    match format {
        Format::Q4K => q8(q8::mat::<k_quants::Q4K>),
        Format::Q5K => q8(q8::mat::<k_quants::Q5K>),
        _ => (Kernels::scalar().mat)(format),
    }
}
