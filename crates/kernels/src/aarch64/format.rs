//! What a weight format tells the engine: how to unpack the quants and the scales of 256 of its columns. Not how they
//! are multiplied (`integer`) or summed (`rows`, `tile`).

use std::arch::aarch64::*;

use candor_quant::Format;

use crate::kind::Kind;

/// Eight floats, lane = block.
pub type Eight = [float32x4_t; 2];

/// What the quants of eight blocks are multiplied with and reduced by.
#[derive(Clone, Copy)]
pub struct Scales {
    pub scale: Eight,
    /// To be subtracted; of both halves, the first that of the whole block for `Minima::Whole`.
    pub minima: [Eight; 2],
    /// Of both halves of block 0, then of block 1 ...
    pub factors: int8x16_t,
}

impl Scales {
    /// For [`Plain`].
    #[inline]
    #[target_feature(enable = "neon")]
    pub fn plain(scale: Eight) -> Scales {
        Scales { scale, minima: [[vdupq_n_f32(0.0); 2]; 2], factors: vdupq_n_s8(1) }
    }

    /// For [`Shifted`].
    #[inline]
    #[target_feature(enable = "neon")]
    pub fn shifted(scale: Eight, minimum: Eight) -> Scales {
        Scales { minima: [minimum; 2], ..Scales::plain(scale) }
    }
}

/// A format of weights that are multiplied with 8-bit activations; `N` is the bytes of 256 columns.
///
/// Stable Rust has no safe trait methods with target features, hence the `unsafe`.
pub trait Quant<const N: usize> {
    const FORMAT: Format;
    /// What is to be subtracted from the quants.
    const OFFSET: i8;
    type Kind: Kind;
    /// Two rows times one input go together and share what is computed of it: where the sums of both stay in registers.
    const PAIRED: bool = !Self::Kind::FACTORS;

    /// The quants of block `block`, 0 to 7, before `OFFSET` is subtracted. The caller's loop is to be unrolled.
    ///
    /// # Safety
    /// The processor has NEON.
    unsafe fn quants(w: &[u8; N], block: usize) -> [int8x16_t; 2];

    /// The scales of all blocks.
    ///
    /// # Safety
    /// The processor has NEON.
    unsafe fn scales(w: &[u8; N]) -> Scales;
}
