//! Tables for x86-64.

mod avx2;

pub(crate) use avx2::Avx2;
