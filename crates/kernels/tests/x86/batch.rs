//! Batch kernels of every engine that this machine runs or emulates.

mod gated;
mod packing;
pub mod products;
pub mod random;
mod speed;
mod unpacking;

use candor_kernels::inside::x86::{Avx2, Avx512, Avx512Bf16, Avx512Vnni, AvxVnni};
use candor_kernels::{BatchKernels, Kernels};
use candor_quant::Format;

use crate::amx::amx;

/// The tables that differ in their batch kernels. AMX's is emulated where the processor has none.
fn tables() -> Vec<&'static Kernels> {
    let tables = [
        Avx2::detect().map(Avx2::kernels),
        AvxVnni::detect().map(AvxVnni::kernels),
        Avx512::detect().map(Avx512::kernels),
        Avx512Vnni::detect().map(Avx512Vnni::kernels),
        Avx512Bf16::detect().map(Avx512Bf16::kernels),
        Avx512::detect().map(|avx512| avx512.kernels().exact),
        amx().map(|amx| amx.kernels()),
    ];
    tables.into_iter().flatten().collect()
}

/// The formats that have batch kernels, and these.
fn formats(table: &Kernels) -> impl Iterator<Item = (Format, BatchKernels)> {
    Format::ALL.iter().filter_map(|&format| Some((format, (table.batch)(format)?)))
}

/// Whether what packs and unpacks to bfloat16 runs here.
fn has_bf16() -> bool {
    Avx512Bf16::detect().is_some()
}
