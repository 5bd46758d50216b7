//! Sixteen weight rows of a superblock, unpacked so that lanes are rows.

use std::arch::x86_64::*;

use candor_quant::Format;

use crate::Line;
use crate::x86::avx512::transpose::transpose;
use crate::x86::batch::lines::store;
use crate::x86::superblocks::Sums;
use crate::x86::superblocks::mat::ROWS;

/// Sixteen rows of 256 columns. Blocks of 32 go in pairs, side by side as an input's are: dwords of a row's first block and
/// of its second alternate, so that a register has eight rows, and packing the sums of both sides gives each row a lane.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub struct Panel {
    /// `[pair][step][side]`: columns `4 step..4 step + 4` of both blocks. Of four rows, which are 128 bits of sums, the first
    /// two are on the first side.
    pub quants: [[[Line; 2]; 8]; 4],
    /// `[pair][half]`, words: the scales of both blocks, or of the halves of both.
    pub factors: [[Line; 2]; 4],
    /// `[pair]`, words: the minima of both blocks.
    pub minima: [Line; 4],
    /// Floats: what sums are to be multiplied with.
    pub scales: Line,
    /// Floats: what sums of minima are to be multiplied with.
    pub minimum_scales: Line,
}

impl Panel {
    pub const ZERO: Panel = Panel {
        quants: [[[Line::ZERO; 2]; 8]; 4],
        factors: [[Line::ZERO; 2]; 4],
        minima: [Line::ZERO; 4],
        scales: Line::ZERO,
        minimum_scales: Line::ZERO,
    };

    /// Stores a step of both blocks of a pair, lane = row.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub fn store_quants(&mut self, (pair, step): (usize, usize), [a, b]: [__m512i; 2]) {
        store(&mut self.quants[pair][step][0], _mm512_unpacklo_epi32(a, b));
        store(&mut self.quants[pair][step][1], _mm512_unpackhi_epi32(a, b));
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

    /// Unpacks one superblock of sixteen rows.
    ///
    /// # Safety
    /// The processor has AVX-512 F, BW, VL and DQ.
    unsafe fn unpack(panel: &mut Panel, rows: [&Self::Bytes; ROWS]);
}

/// 16 bytes of each row from `at`: dword `i` of row `r` becomes lane `r` of register `i`.
#[inline]
#[target_feature(enable = "avx512f")]
pub fn heads<const N: usize>(rows: [&[u8; N]; ROWS], at: usize) -> [__m512i; 4] {
    let mut fours = [_mm512_setzero_si512(); 4];
    for i in 0..4 {
        let head = |r: usize| load_128(rows[r], at);
        let register = _mm512_castsi128_si512(head(i));
        let register = _mm512_inserti32x4::<1>(register, head(4 + i));
        let register = _mm512_inserti32x4::<2>(register, head(8 + i));
        fours[i] = _mm512_inserti32x4::<3>(register, head(12 + i));
    }
    let [a, b, c, d] = fours;
    let (ab, cd) = (_mm512_unpacklo_epi32(a, b), _mm512_unpacklo_epi32(c, d));
    let (ab2, cd2) = (_mm512_unpackhi_epi32(a, b), _mm512_unpackhi_epi32(c, d));
    [
        _mm512_unpacklo_epi64(ab, cd),
        _mm512_unpackhi_epi64(ab, cd),
        _mm512_unpacklo_epi64(ab2, cd2),
        _mm512_unpackhi_epi64(ab2, cd2),
    ]
}

/// 64 bytes of each row from `at`: dword `i` of row `r` becomes lane `r` of register `i`.
#[inline]
#[target_feature(enable = "avx512f")]
pub fn columns<const N: usize>(rows: [&[u8; N]; ROWS], at: usize) -> [__m512i; 16] {
    let mut registers = [_mm512_setzero_si512(); ROWS];
    for r in 0..ROWS {
        let bytes: &[u8] = &rows[r][at..at + 64];
        // SAFETY: `bytes` is 64 readable bytes, and the instruction takes any alignment.
        registers[r] = unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) };
    }
    transpose(registers)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load_128<const N: usize>(bytes: &[u8; N], at: usize) -> __m128i {
    let bytes: &[u8] = &bytes[at..at + 16];
    // SAFETY: `bytes` is 16 readable bytes, and the instruction takes any alignment.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}
