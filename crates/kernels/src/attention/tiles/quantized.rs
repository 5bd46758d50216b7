//! Sources of Q8_0 and Q4_0: a quant is widened and multiplied with its scale, which is exact.

use std::marker::PhantomData;

use candor_quant::Format;

use super::source::{Source, ahead};
use super::wide::Wide;
use crate::attention::PANEL;

/// A quantized format, in blocks of 32 numbers with one scale.
pub(super) trait Block: Copy {
    const FORMAT: Format;
    /// Where 16 quants begin behind their scales: those of the numbers `16 * half + index` of blocks that lie side by
    /// side, `pitch` of them, or with one block the numbers from `16 * half` on.
    fn place(half: usize, index: usize, pitch: usize) -> usize;
    /// Widens the quants there.
    ///
    /// # Safety
    /// As [`Wide`].
    unsafe fn load<W: Wide>(at: *const u8, half: usize) -> W;
}

#[derive(Clone, Copy)]
pub(crate) struct Q8;
#[derive(Clone, Copy)]
pub(crate) struct Q4;

impl Block for Q8 {
    const FORMAT: Format = Format::Q8_0;

    #[inline(always)]
    fn place(half: usize, index: usize, pitch: usize) -> usize {
        (half * 16 + index) * pitch
    }

    #[inline(always)]
    unsafe fn load<W: Wide>(at: *const u8, _: usize) -> W {
        // SAFETY: the caller's promise.
        unsafe { W::load_i8(at) }
    }
}

impl Block for Q4 {
    const FORMAT: Format = Format::Q4_0;

    #[inline(always)]
    fn place(_: usize, index: usize, pitch: usize) -> usize {
        index * pitch
    }

    #[inline(always)]
    unsafe fn load<W: Wide>(at: *const u8, half: usize) -> W {
        // SAFETY: the caller's promise.
        unsafe { W::load_u4(at, half * 4) }
    }
}

/// Bytes of a half-precision scale.
const SCALE: usize = 2;

/// Panels of quantized keys.
#[derive(Clone, Copy)]
pub(super) struct Keys<B> {
    pub base: *const u8,
    pub panel_bytes: usize,
    pub format: PhantomData<B>,
}

impl<B: Block> Keys<B> {
    /// The 16 blocks with dimension `k`: their scales, then their quants.
    #[inline(always)]
    unsafe fn blocks(self, k: usize, n: usize) -> *const u8 {
        // SAFETY: the caller's promise.
        unsafe { self.base.add(n * self.panel_bytes + k / 32 * (B::FORMAT.block_bytes() * PANEL)) }
    }
}

// SAFETY: `scale` and `group` read what `attention` says of the layout.
unsafe impl<W: Wide, B: Block> Source<W> for Keys<B> {
    const SPAN: usize = 32;

    #[inline(always)]
    unsafe fn scale(self, k: usize, n: usize) -> W {
        // SAFETY: the caller's promise.
        unsafe { W::load_f16(self.blocks(k, n)) }
    }

    #[inline(always)]
    unsafe fn group(self, k: usize, n: usize, scale: W) -> W {
        let (half, index) = (k % 32 / 16, k % 16);
        // SAFETY: the caller's promise.
        unsafe {
            let quants = self.blocks(k, n).add(SCALE * PANEL + B::place(half, index, PANEL));
            B::load::<W>(ahead::<W>(quants), half).times(scale)
        }
    }

    #[inline(always)]
    unsafe fn skip(self, groups: usize) -> Self {
        // SAFETY: the caller's promise.
        Keys { base: unsafe { self.base.add(groups * self.panel_bytes) }, ..self }
    }
}

/// Rows of quantized values.
#[derive(Clone, Copy)]
pub(super) struct Rows<B> {
    pub base: *const u8,
    pub row_bytes: usize,
    pub format: PhantomData<B>,
}

impl<B: Block> Rows<B> {
    /// The block with group `n`.
    #[inline(always)]
    unsafe fn block(self, k: usize, n: usize) -> *const u8 {
        // SAFETY: the caller's promise.
        unsafe { self.base.add(k * self.row_bytes + n / 2 * B::FORMAT.block_bytes()) }
    }
}

// SAFETY: as above.
unsafe impl<W: Wide, B: Block> Source<W> for Rows<B> {
    const SPAN: usize = 1;

    #[inline(always)]
    unsafe fn scale(self, k: usize, n: usize) -> W {
        // SAFETY: the caller's promise.
        unsafe { W::splat_f16(self.block(k, n)) }
    }

    #[inline(always)]
    unsafe fn group(self, k: usize, n: usize, scale: W) -> W {
        // SAFETY: the caller's promise.
        unsafe {
            let quants = self.block(k, n).add(SCALE + B::place(n % 2, 0, 1));
            B::load::<W>(ahead::<W>(quants), n % 2).times(scale)
        }
    }

    #[inline(always)]
    unsafe fn skip(self, groups: usize) -> Self {
        // SAFETY: the caller's promise.
        Rows { base: unsafe { self.base.add(groups / 2 * B::FORMAT.block_bytes()) }, ..self }
    }
}
