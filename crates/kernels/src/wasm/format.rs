//! What a weight format tells the engine: how to unpack the quants and the scales of 256 of its columns. Not how they
//! are multiplied (`multiply`) or summed (`rows`, `tile`).

use std::arch::wasm32::*;

use candor_quant::Format;

use super::half_table::HalfTable;
use crate::kind::Kind;

/// Eight floats, lane = block.
pub type Eight = [v128; 2];

/// What the quants of eight blocks are multiplied with and reduced by.
#[derive(Clone, Copy)]
pub struct Scales {
    pub scale: Eight,
    /// To be subtracted; of both halves, the first that of the whole block for `Minima::Whole`.
    pub minima: [Eight; 2],
    /// Of both halves of block 0, then of block 1 ...
    pub factors: v128,
}

impl Scales {
    /// For [`Plain`](crate::kind::Plain).
    #[inline(always)]
    pub fn plain(scale: Eight) -> Scales {
        Scales { scale, minima: [[f32x4_splat(0.0); 2]; 2], factors: i8x16_splat(1) }
    }

    /// For [`Shifted`](crate::kind::Shifted).
    #[inline(always)]
    pub fn shifted(scale: Eight, minimum: Eight) -> Scales {
        Scales { minima: [minimum; 2], ..Scales::plain(scale) }
    }
}

/// What quants may be, before their offset is subtracted.
#[derive(Clone, Copy, PartialEq)]
pub enum Range {
    /// 0 to this, at most 127.
    UpTo(u8),
    /// -128 to 127.
    Signed,
}

impl Range {
    /// Whether sums of this many products with activations of -127 to 127 fit 16 bits.
    pub const fn fits_words(self, products: u32) -> bool {
        match self {
            Range::UpTo(most) => most as u32 * 127 * products <= i16::MAX as u32,
            Range::Signed => false,
        }
    }
}

/// A format of weights that are multiplied with 8-bit activations; `N` is the bytes of 256 columns.
pub trait Quant<const N: usize> {
    const FORMAT: Format;
    const RANGE: Range;
    /// What is to be subtracted from the quants.
    const OFFSET: i8;
    type Kind: Kind;

    /// The quants of block `block`, 0 to 7, before `OFFSET` is subtracted. The caller's loop is to be unrolled.
    fn quants(w: &[u8; N], block: usize) -> [v128; 2];

    /// The scales of all blocks.
    fn scales(w: &[u8; N], halves: HalfTable) -> Scales;
}
