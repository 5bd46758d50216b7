//! Tables for x86-64.

pub mod ahead;
pub mod amx;
mod avx2;
pub mod avx512;
mod avxvnni;
pub mod batch;
pub mod superblocks;

pub use amx::Amx;
pub use avx2::Avx2;
pub use avx512::{Avx512, Avx512Bf16, Avx512Vnni};
pub use avxvnni::AvxVnni;
