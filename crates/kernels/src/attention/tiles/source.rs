//! Where the products find a group of numbers; floats, in panels and rows. Not what has scales: that is `quantized`.

use std::marker::PhantomData;

use super::wide::Wide;

/// Where `b` lies: group `n` of step `k`.
///
/// # Safety
/// Every method needs the instruction set of `W`, and a group that lies within the cached bytes.
pub(crate) unsafe trait Source<W: Wide>: Copy {
    /// Steps that share their scales, of which the first is a multiple of it; the largest number where there are none.
    const SPAN: usize;
    /// There are scales.
    const SCALED: bool = Self::SPAN < usize::MAX;
    unsafe fn scale(self, k: usize, n: usize) -> W;
    unsafe fn group(self, k: usize, n: usize, scale: W) -> W;
    /// The same with its first `groups` groups left out, an even number of them.
    unsafe fn skip(self, groups: usize) -> Self;
}

/// Prefetches what comes some time after `at`, which it hands back.
///
/// # Safety
/// As [`Wide`].
#[inline(always)]
pub(super) unsafe fn ahead<W: Wide>(at: *const u8) -> *const u8 {
    // SAFETY: the caller's promise; prefetches take any address.
    unsafe { W::prefetch(at) };
    at
}

/// Numbers without scales: keys or values, by their steps in bytes.
#[derive(Clone, Copy)]
pub(super) struct Floats<N> {
    pub base: *const u8,
    pub k_step: usize,
    pub n_step: usize,
    pub number: PhantomData<N>,
}

/// A float of the cache.
pub(super) trait Number: Copy {
    /// Widens 16.
    ///
    /// # Safety
    /// As [`Wide`].
    unsafe fn load<W: Wide>(at: *const u8) -> W;
}

#[derive(Clone, Copy)]
pub(crate) struct F32;
#[derive(Clone, Copy)]
pub(crate) struct F16;

impl Number for F32 {
    #[inline(always)]
    unsafe fn load<W: Wide>(at: *const u8) -> W {
        // SAFETY: the caller's promise.
        unsafe { W::load(at) }
    }
}

impl Number for F16 {
    #[inline(always)]
    unsafe fn load<W: Wide>(at: *const u8) -> W {
        // SAFETY: the caller's promise.
        unsafe { W::load_f16(at) }
    }
}

// SAFETY: `group` reads 16 numbers at the place that the steps give; the maker of a `Floats` gives it the right ones.
unsafe impl<W: Wide, N: Number> Source<W> for Floats<N> {
    const SPAN: usize = usize::MAX;

    #[inline(always)]
    unsafe fn scale(self, _: usize, _: usize) -> W {
        // SAFETY: the caller's promise.
        unsafe { W::zero() }
    }

    #[inline(always)]
    unsafe fn group(self, k: usize, n: usize, _: W) -> W {
        // SAFETY: the caller's promise.
        unsafe { N::load(ahead::<W>(self.base.add(k * self.k_step + n * self.n_step))) }
    }

    #[inline(always)]
    unsafe fn skip(self, groups: usize) -> Self {
        // SAFETY: the caller's promise.
        Floats { base: unsafe { self.base.add(groups * self.n_step) }, ..self }
    }
}
