//! Tables for x86-64.

mod ahead;
mod amx;
mod avx2;
mod avx512;
mod avxvnni;
mod batch;
mod superblocks;

pub(crate) use amx::Amx;
pub(crate) use avx2::Avx2;
pub(crate) use avx512::{Avx512, Avx512Bf16, Avx512Vnni};
pub(crate) use avxvnni::AvxVnni;
