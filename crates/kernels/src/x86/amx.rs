//! The table for AMX (Sapphire Rapids and later): tiles of bfloat16 for prompts, AVX-512's rows for few inputs.
//!
//! Weights of any format are unpacked to bfloat16 block by block and inputs rounded to it, with 8 significant bits each;
//! sums are f32. F16 weights and their inputs become two bfloat16 each, of which the product of the two small halves is
//! left out: 16 significant bits, where one half of either would have an error above that of half-precision inputs.
//! F32 weights stay with the exact row kernels.
#![allow(clippy::needless_range_loop, reason = "the index of a register meets several arrays, with constant bounds")]

mod lines;
mod mat;
mod pack;
mod permission;
mod tiles;
mod unpack;

#[cfg(all(test, target_os = "linux"))]
mod emulator;
#[cfg(all(test, target_os = "linux"))]
mod tests;

use std::arch::x86_64::__cpuid_count;
use std::sync::OnceLock;

use candor_quant::Format;

use crate::{BatchKernels, Kernels};

use super::Avx512Vnni;
use unpack::{k_quants, legacy, plain};

/// Proof that this processor has AMX with bfloat16, AVX-512 with bfloat16 and what AVX-512 VNNI's table needs, and that
/// the operating system lets this process use the tiles.
#[derive(Clone, Copy)]
pub(crate) struct Amx(Avx512Vnni);

impl Amx {
    /// Asks the processor and the operating system.
    pub(crate) fn detect() -> Option<Amx> {
        const AMX_BF16: u32 = 1 << 22;
        const AMX_TILE: u32 = 1 << 24;
        let below = Avx512Vnni::detect()?;
        let features = __cpuid_count(7, 0).edx;
        let has = features & AMX_BF16 != 0
            && features & AMX_TILE != 0
            && is_x86_feature_detected!("avx512bf16")
            && permission::state_is_saved()
            && permission::ask();
        has.then_some(Amx(below))
    }

    /// The table: loops and rows are those of the one below.
    pub(crate) fn kernels(self) -> &'static Kernels {
        static TABLE: OnceLock<Kernels> = OnceLock::new();
        TABLE.get_or_init(|| {
            let Kernels { f32, mat, attention, probe, .. } = *self.0.kernels();
            Kernels { name: "amx", f32, mat, attention, batch, probe }
        })
    }
}

/// Formats with an unpacker of their own; the other blocks are decoded to f32 first. None for F32, and for integers and
/// F64, which have more than 8 or 16 significant bits.
fn batch(format: Format) -> Option<BatchKernels> {
    match format {
        Format::F16 => Some(mat::kernels::<plain::F16>()),
        Format::Bf16 => Some(mat::kernels::<plain::Bf16>()),
        Format::Q4_0 => Some(mat::kernels::<legacy::Q4_0>()),
        Format::Q4_1 => Some(mat::kernels::<legacy::Q4_1>()),
        Format::Q5_0 => Some(mat::kernels::<legacy::Q5_0>()),
        Format::Q5_1 => Some(mat::kernels::<legacy::Q5_1>()),
        Format::Q8_0 => Some(mat::kernels::<legacy::Q8_0>()),
        Format::Iq4Nl => Some(mat::kernels::<legacy::Iq4Nl>()),
        Format::Q2K => Some(mat::kernels::<k_quants::Q2K>()),
        Format::Q3K => Some(mat::kernels::<k_quants::Q3K>()),
        Format::Q4K => Some(mat::kernels::<k_quants::Q4K>()),
        Format::Q5K => Some(mat::kernels::<k_quants::Q5K>()),
        Format::Q6K => Some(mat::kernels::<k_quants::Q6K>()),
        Format::Iq4Xs => Some(mat::kernels::<k_quants::Iq4Xs>()),
        _ => unpack::decoded(format),
    }
}
