//! The table for AVX-VNNI: the byte dot products of AVX-512 VNNI for registers of 256 bits, on processors that lack AVX-512
//! (Alder Lake and later). What multiplies no bytes is AVX2's.
#![allow(
    clippy::needless_range_loop,
    reason = "the index of a register tile meets several arrays, with constant bounds"
)]

pub(super) mod fours;
mod probe;

use super::{Avx2, avx2, superblocks};
use crate::Kernels;

/// Proof that this processor has AVX-VNNI, and what AVX2's table needs.
#[derive(Clone, Copy)]
pub struct AvxVnni(());

impl AvxVnni {
    /// Asks the processor and the operating system.
    pub fn detect() -> Option<AvxVnni> {
        Avx2::detect()?;
        is_x86_feature_detected!("avxvnni").then_some(AvxVnni(()))
    }

    /// The table.
    pub fn kernels(self) -> &'static Kernels {
        static TABLE: Kernels = Kernels {
            name: "avxvnni",
            f32: avx2::LOOPS,
            mat: avx2::kernels::<fours::Fours>,
            attention: avx2::attention,
            probe: probe::PROBE,
            batch: superblocks::avxvnni,
            exact: &avx2::EXACT,
        };
        &TABLE
    }
}
