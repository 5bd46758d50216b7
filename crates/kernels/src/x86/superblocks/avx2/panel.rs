//! Sixteen weight rows of a superblock, unpacked so that lanes are rows: eight on each side.

use std::arch::x86_64::*;

use candor_quant::Format;

use super::pairs::Pairs;
use crate::x86::avx2::fold::transpose;
use crate::x86::avx2::registers::{load_128, load_256, store_256};
use crate::x86::superblocks::Sums;

/// A register of eight rows.
pub type Eight = [u8; 32];

/// Sixteen rows of 256 columns. Blocks of 32 go in pairs.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub struct Panel {
    /// `[pair][step][side]`: in every lane the columns of a step, as `Pairs` has them.
    pub quants: [[[Eight; 2]; 16]; 4],
    /// `[pair][half][side]`, words: the scales of both blocks, or of the halves of both.
    pub factors: [[[Eight; 2]; 2]; 4],
    /// `[pair][side]`, words: the minima of both blocks.
    pub minima: [[Eight; 2]; 4],
    /// What sums are to be multiplied with.
    pub scales: [[f32; 8]; 2],
    /// What sums of minima are to be multiplied with.
    pub minimum_scales: [[f32; 8]; 2],
}

impl Panel {
    pub const ZERO: Panel = Panel {
        quants: [[[[0; 32]; 2]; 16]; 4],
        factors: [[[[0; 32]; 2]; 2]; 4],
        minima: [[[0; 32]; 2]; 4],
        scales: [[0.0; 8]; 2],
        minimum_scales: [[0.0; 8]; 2],
    };

    /// Stores columns `4 four..4 four + 4` of both blocks of a pair.
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    pub fn store_quants<M: Pairs>(&mut self, (pair, four, side): (usize, usize, usize), blocks: [__m256i; 2]) {
        // SAFETY: only a table leads here, whose token says that the processor has the products.
        for (i, step) in unsafe { M::weights(blocks) }.into_iter().enumerate() {
            store_256(&mut self.quants[pair][2 * four + i][side], step);
        }
    }
}

/// What a format's superblock is.
///
/// Stable Rust has no safe trait methods with target features, hence the `unsafe`.
pub trait Superblock {
    const FORMAT: Format;
    const SUMS: Sums;
    /// Bytes of a superblock.
    type Bytes;

    /// A row's superblocks.
    fn split(row: &[u8]) -> &[Self::Bytes];

    /// Unpacks one superblock of eight rows as a side of the panel.
    ///
    /// # Safety
    /// The processor has AVX2, FMA and F16C, and the products of `M`.
    unsafe fn unpack<M: Pairs>(panel: &mut Panel, side: usize, rows: [&Self::Bytes; 8]);
}

/// 16 bytes of each row from `at`: dword `i` of row `r` becomes lane `r` of register `i`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn heads<const N: usize>(rows: [&[u8; N]; 8], at: usize) -> [__m256i; 4] {
    let mut twos = [_mm256_setzero_si256(); 4];
    for i in 0..4 {
        twos[i] = _mm256_set_m128i(load_128(rows[i + 4], at), load_128(rows[i], at));
    }
    let [a, b, c, d] = twos;
    let (ab, cd) = (_mm256_unpacklo_epi32(a, b), _mm256_unpacklo_epi32(c, d));
    let (ab2, cd2) = (_mm256_unpackhi_epi32(a, b), _mm256_unpackhi_epi32(c, d));
    [
        _mm256_unpacklo_epi64(ab, cd),
        _mm256_unpackhi_epi64(ab, cd),
        _mm256_unpacklo_epi64(ab2, cd2),
        _mm256_unpackhi_epi64(ab2, cd2),
    ]
}

/// 32 bytes of each row from `at`: dword `i` of row `r` becomes lane `r` of register `i`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn columns<const N: usize>(rows: [&[u8; N]; 8], at: usize) -> [__m256i; 8] {
    let mut registers = [_mm256_setzero_si256(); 8];
    for r in 0..8 {
        registers[r] = load_256(rows[r], at);
    }
    transpose(registers)
}
