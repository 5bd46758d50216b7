//! What the factors of products are rounded to before they are multiplied.

use candor_cpu::Batching;
use candor_gguf::Format;
use candor_kernels::{Form, Kernels};

use crate::Role;

/// How a product rounds what it multiplies. Sums are f32 throughout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rounding {
    /// Not at all.
    Exact,
    /// Inputs to 8 bits, with a float for as many of them.
    Blocks(usize),
    /// Inputs and weights to bfloat16.
    Bfloat,
    /// Inputs to the sum of two bfloat16: 16 significant bits.
    TwoBfloats,
    /// Inputs and weights to halves.
    Halves,
}

impl Rounding {
    /// How a GPU rounds products with weights of a format, in rows of a role.
    #[cfg(all(feature = "gpu", not(target_arch = "wasm32")))]
    pub(crate) fn of_gpu(variant: candor_gpu::Variant, format: Format, role: Role) -> Rounding {
        let matrices = variant.cooperative.is_some();
        match (role, format) {
            (Role::Decode, _) if variant.int8_dot && format.block_len() > 1 => Rounding::Blocks(32),
            (Role::Decode, _) | (Role::Prefill, Format::F32 | Format::Bf16) => Rounding::Exact,
            (Role::Prefill, _) if variant.int8_dot && format.block_len() > 1 && !matrices => Rounding::Blocks(32),
            (Role::Prefill, _) if matrices || variant.f16 => Rounding::Halves,
            (Role::Prefill, _) => Rounding::Exact,
        }
    }
}

/// The kernels of the processor, and what decides among them.
#[derive(Clone, Copy)]
pub(crate) struct Arithmetic {
    pub(crate) kernels: &'static Kernels,
    pub(crate) batching: Batching,
}

impl Arithmetic {
    /// How products with weights of a format are rounded, in rows of a role.
    pub(crate) fn rounding(self, format: Format, role: Role) -> Rounding {
        let batch = (self.kernels.batch)(format).filter(|_| self.batching != Batching::Invariant);
        match (role, batch, (self.kernels.mat)(format)) {
            (Role::Prefill, Some(batch), _) => match batch.packing.form {
                Form::Bf16 => Rounding::Bfloat,
                Form::TwoBf16 => Rounding::TwoBfloats,
                Form::F32 => Rounding::Exact,
                Form::Int8 => Rounding::Blocks(256),
            },
            (_, _, Some(rows)) if rows.q8 => Rounding::Blocks(32),
            _ => Rounding::Exact,
        }
    }
}
