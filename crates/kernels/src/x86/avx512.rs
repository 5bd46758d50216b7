//! The tables for AVX-512: F, BW, VL and DQ (Skylake-SP and later), the same with the byte dot products of VNNI (Cascade Lake,
//! Ice Lake, Zen 4 and later), and with those of bfloat16.
#![allow(
    clippy::needless_range_loop,
    reason = "the index of a register tile meets several arrays, with constant bounds"
)]

mod attention;
mod decoded;
pub mod exp;
mod factored;
mod float;
mod float_loops;
mod input;
mod panel;
mod panels;
mod probe;
mod quantize;
mod quarters;
mod registers;
mod row;
mod row_bits;
mod row_codebooks;
mod row_formats;
mod row_scales;
pub(super) mod transpose;
mod vnni;

pub(super) use attention::{Sixteen, attention};

use candor_quant::Format;

use crate::codebook as books;
use crate::exact::by_type;
use crate::{BatchKernels, Kernels, MatKernels};

use super::Avx2;
use super::batch::{
    self,
    registers::{Floats, Pairs},
    unpack::plain,
};
use super::superblocks;
pub(super) use decoded::{Blocks, decode};
pub(super) use float::Number;
pub use float::{Bf16, F16, F32};

/// Proof that this processor has AVX-512 F, BW, VL and DQ, and what AVX2's table needs.
#[derive(Clone, Copy)]
pub struct Avx512(());

impl Avx512 {
    /// Asks the processor and the operating system.
    pub fn detect() -> Option<Avx512> {
        Avx2::detect()?;
        let has = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512dq");
        has.then_some(Avx512(()))
    }

    /// The table.
    pub fn kernels(self) -> &'static Kernels {
        static TABLE: Kernels = Kernels {
            name: "avx512",
            f32: float_loops::LOOPS,
            mat,
            attention: attention::attention,
            probe: probe::BYTES,
            batch: |format| superblocks::avx2(format).or_else(|| float_batch(format)),
            exact: &EXACT,
        };
        &TABLE
    }
}

/// Proof that this processor has AVX-512 VNNI too.
#[derive(Clone, Copy)]
pub struct Avx512Vnni(());

impl Avx512Vnni {
    /// Asks the processor and the operating system.
    pub fn detect() -> Option<Avx512Vnni> {
        Avx512::detect()?;
        is_x86_feature_detected!("avx512vnni").then_some(Avx512Vnni(()))
    }

    /// The table.
    pub fn kernels(self) -> &'static Kernels {
        static TABLE: Kernels = Kernels {
            name: "avx512vnni",
            f32: float_loops::LOOPS,
            mat: vnni::kernels,
            attention: attention::attention,
            probe: probe::VNNI,
            batch: vnni_batch,
            exact: &EXACT,
        };
        &TABLE
    }
}

/// Proof that this processor has AVX-512 with bfloat16 and VNNI too (Cooper Lake, Zen 4, Sapphire Rapids and later).
#[derive(Clone, Copy)]
pub struct Avx512Bf16(());

impl Avx512Bf16 {
    /// Asks the processor and the operating system.
    pub fn detect() -> Option<Avx512Bf16> {
        Avx512Vnni::detect()?;
        is_x86_feature_detected!("avx512bf16").then_some(Avx512Bf16(()))
    }

    /// The table: that of VNNI, except for many inputs of BF16 weights, which are rounded to bfloat16 in turn.
    pub fn kernels(self) -> &'static Kernels {
        static TABLE: Kernels = Kernels {
            name: "avx512bf16",
            f32: float_loops::LOOPS,
            mat: vnni::kernels,
            attention: attention::attention,
            probe: probe::VNNI,
            batch: |format| match format {
                Format::Bf16 => Some(batch::mat::kernels::<plain::Bf16, Pairs>()),
                _ => vnni_batch(format),
            },
            exact: &EXACT,
        };
        &TABLE
    }
}

/// What `$of` is, with `$type` as what decodes a format; `None` for plain numbers.
macro_rules! by_blocks {
    ($format:expr, $type:ident => $of:expr) => {
        by_blocks!($format, $type => $of;
            decoded::{Q4_0 Q4_1 Q5_0 Q5_1 Q4K Q5K Q6K Iq4Nl Iq4Xs Mxfp4 Nvfp4}
            books::{Iq1S Iq1M Iq2Xxs Iq2Xs Iq2S Iq3Xxs Iq3S})
    };
    ($format:expr, $type:ident => $of:expr; decoded::{$($name:ident)*} books::{$($book:ident)*}) => {
        match $format {
            $(Format::$name => {
                type $type = decoded::$name;
                Some($of)
            })*
            $(Format::$book => {
                type $type = decoded::Books<books::$book>;
                Some($of)
            })*
            _ => by_type!($format, D => {
                type $type = decoded::Compiled<D>;
                $of
            }),
        }
    };
}

/// The table without rounded inputs, for all that have AVX-512.
static EXACT: Kernels = Kernels {
    name: "avx512-f32",
    f32: float_loops::LOOPS,
    mat: exact,
    attention: attention::attention,
    probe: probe::BYTES,
    batch: exact_batch,
    exact: &EXACT,
};

fn exact(format: Format) -> Option<MatKernels> {
    let blocks = by_blocks!(format, B => MatKernels { q8: false, mat: float::decoded::<B> });
    blocks.or_else(|| mat(format))
}

fn exact_batch(format: Format) -> Option<BatchKernels> {
    let blocks = by_blocks!(format, B => batch::mat::kernels::<plain::Decoded<B>, Floats>());
    blocks.or_else(|| float_batch(format))
}

/// Plain numbers, exactly as they are.
fn float_batch(format: Format) -> Option<BatchKernels> {
    match format {
        Format::F32 => Some(batch::mat::kernels::<plain::Wide<float::F32>, Floats>()),
        Format::F16 => Some(batch::mat::kernels::<plain::Wide<float::F16>, Floats>()),
        Format::Bf16 => Some(batch::mat::kernels::<plain::Wide<float::Bf16>, Floats>()),
        _ => None,
    }
}

/// K-quants too.
fn vnni_batch(format: Format) -> Option<BatchKernels> {
    superblocks::vnni(format).or_else(|| float_batch(format))
}

/// Plain numbers by 16 lanes, quantized weights as AVX2 takes them.
fn mat(format: Format) -> Option<MatKernels> {
    let float = |mat| Some(MatKernels { q8: false, mat });
    match format {
        Format::F32 => float(float::mat::<float::F32>),
        Format::F16 => float(float::mat::<float::F16>),
        Format::Bf16 => float(float::mat::<float::Bf16>),
        _ => super::avx2::mat(format),
    }
}
