//! The table for AMX (Sapphire Rapids and later): tiles of bfloat16 for prompts, AVX-512's rows for few inputs.
//!
//! Weights of any format are unpacked to bfloat16 block by block and inputs rounded to it, with 8 significant bits each;
//! sums are f32. F16 weights and their inputs become two bfloat16 each, of which the product of the two small halves is
//! left out: 16 significant bits, where one half of either would have an error above that of half-precision inputs.
//! F32 weights stay as they are, and with the engine in registers. Attention of prompts has halves too.

mod attention;
mod permission;
pub mod tiles;

use std::arch::x86_64::__cpuid_count;
use std::sync::OnceLock;

use candor_quant::Format;

use crate::{BatchKernels, Kernels, Probe, codebook};

use super::Avx512Bf16;
use super::avx512::F32;
use super::batch::mat;
use super::batch::registers::Floats;
use super::batch::unpack::{k_quants, legacy, nvfp4::Nvfp4, plain};
use tiles::Tiles;

/// Proof that this processor has AMX with bfloat16, AVX-512 with bfloat16 and what AVX-512 VNNI's table needs, and that
/// the operating system lets this process use the tiles.
#[derive(Clone, Copy)]
pub struct Amx(Avx512Bf16);

impl Amx {
    /// Asks the processor and the operating system.
    pub fn detect() -> Option<Amx> {
        const AMX_BF16: u32 = 1 << 22;
        const AMX_TILE: u32 = 1 << 24;
        let below = Avx512Bf16::detect()?;
        let features = __cpuid_count(7, 0).edx;
        let has =
            features & AMX_BF16 != 0 && features & AMX_TILE != 0 && permission::state_is_saved() && permission::ask();
        has.then_some(Amx(below))
    }

    /// The token of a process in which something else carries tile instructions out.
    ///
    /// # Safety
    /// Tile instructions work in every thread of this process.
    pub unsafe fn emulated(below: Avx512Bf16) -> Amx {
        Amx(below)
    }

    /// The table: loops and rows are those of the one below.
    pub fn kernels(self) -> &'static Kernels {
        static TABLE: OnceLock<Kernels> = OnceLock::new();
        TABLE.get_or_init(|| {
            let Kernels { f32, mat, probe, exact, .. } = *self.0.kernels();
            let multiply = |rounds| {
                // SAFETY: this token alone leads here: the processor has AMX. Kernels do not call each other.
                unsafe { tiles::probe(rounds) }
            };
            let probe = Probe { multiply, numbers: "bfloat16", ..probe };
            Kernels { name: "amx", f32, mat, attention: attention::attention, batch, probe, exact }
        })
    }
}

/// The formats that files have. F32 stays exact, in registers. None for integers and F64, which have more than 8 or 16
/// significant bits, and what no file has.
fn batch(format: Format) -> Option<BatchKernels> {
    match format {
        Format::F16 => Some(mat::kernels::<plain::F16, Tiles>()),
        Format::Bf16 => Some(mat::kernels::<plain::Bf16, Tiles>()),
        Format::Q4_0 => Some(mat::kernels::<legacy::Q4_0, Tiles>()),
        Format::Q4_1 => Some(mat::kernels::<legacy::Q4_1, Tiles>()),
        Format::Q5_0 => Some(mat::kernels::<legacy::Q5_0, Tiles>()),
        Format::Q5_1 => Some(mat::kernels::<legacy::Q5_1, Tiles>()),
        Format::Q8_0 => Some(mat::kernels::<legacy::Q8_0, Tiles>()),
        Format::Iq4Nl => Some(mat::kernels::<legacy::Iq4Nl, Tiles>()),
        Format::Q2K => Some(mat::kernels::<k_quants::Q2K, Tiles>()),
        Format::Q3K => Some(mat::kernels::<k_quants::Q3K, Tiles>()),
        Format::Q4K => Some(mat::kernels::<k_quants::Q4K, Tiles>()),
        Format::Q5K => Some(mat::kernels::<k_quants::Q5K, Tiles>()),
        Format::Q6K => Some(mat::kernels::<k_quants::Q6K, Tiles>()),
        Format::Iq4Xs => Some(mat::kernels::<k_quants::Iq4Xs, Tiles>()),
        Format::F32 => Some(mat::kernels::<plain::Wide<F32>, Floats>()),
        Format::Mxfp4 => Some(mat::kernels::<legacy::Mxfp4, Tiles>()),
        Format::Nvfp4 => Some(mat::kernels::<Nvfp4, Tiles>()),
        Format::Iq1S => Some(mat::kernels::<codebook::Iq1S, Tiles>()),
        Format::Iq1M => Some(mat::kernels::<codebook::Iq1M, Tiles>()),
        Format::Iq2Xxs => Some(mat::kernels::<codebook::Iq2Xxs, Tiles>()),
        Format::Iq2Xs => Some(mat::kernels::<codebook::Iq2Xs, Tiles>()),
        Format::Iq2S => Some(mat::kernels::<codebook::Iq2S, Tiles>()),
        Format::Iq3Xxs => Some(mat::kernels::<codebook::Iq3Xxs, Tiles>()),
        Format::Iq3S => Some(mat::kernels::<codebook::Iq3S, Tiles>()),
        Format::Tq1_0 => Some(mat::kernels::<codebook::Tq1_0, Tiles>()),
        Format::Tq2_0 => Some(mat::kernels::<codebook::Tq2_0, Tiles>()),
        _ => None,
    }
}
