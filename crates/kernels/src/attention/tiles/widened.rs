//! Groups that are widened once and kept in the first-level cache, for more queries than a tile has.

use std::mem::MaybeUninit;

use super::source::Source;
use super::tile::Product;
use super::wide::Wide;
use crate::attention::PANEL;

/// Groups that were widened already, those of one `n`.
#[derive(Clone, Copy)]
pub(crate) struct Widened {
    base: *const u8,
}

// SAFETY: `group` reads 16 floats at the place of a step.
unsafe impl<W: Wide> Source<W> for Widened {
    const SPAN: usize = usize::MAX;

    #[inline(always)]
    unsafe fn scale(self, _: usize, _: usize) -> W {
        // SAFETY: the caller's promise.
        unsafe { W::zero() }
    }

    #[inline(always)]
    unsafe fn group(self, k: usize, _: usize, _: W) -> W {
        // SAFETY: the caller's promise.
        unsafe { W::load(self.base.add(k * 4 * PANEL)) }
    }

    #[inline(always)]
    unsafe fn skip(self, _: usize) -> Self {
        self
    }
}

/// Steps that are widened at once: 8192 bytes, a part of the first-level cache.
const KEPT: usize = 128;

/// Widens each group once, for any number of queries: `run` gets products with one group.
///
/// # Safety
/// The processor has the instruction set of `W`, and all that the product names lies within its slices.
#[inline(always)]
pub(crate) unsafe fn widened<W: Wide, S: Source<W>>(p: Product<S>, run: impl Fn(Product<Widened>)) {
    let mut kept = [const { MaybeUninit::<[f32; PANEL]>::uninit() }; KEPT];
    for n in 0..p.groups {
        // SAFETY: the caller's promise.
        let (b, odd) = (unsafe { p.b.skip(n / 2 * 2) }, n % 2);
        for start in (0..p.steps).step_by(KEPT) {
            let steps = KEPT.min(p.steps - start);
            let mut k = 0;
            while k < steps {
                // SAFETY: the caller's promise; `kept` has room for the steps.
                unsafe {
                    let scale = b.scale(start + k, odd);
                    let end = steps.min(k.saturating_add(S::SPAN));
                    while k < end {
                        b.group(start + k, odd, scale).store(kept[k].as_mut_ptr().cast());
                        k += 1;
                    }
                }
            }
            let c = p.c.wrapping_add(n * PANEL);
            let b = Widened { base: kept.as_ptr().cast() };
            run(Product {
                c,
                c_stride: p.c_stride,
                a: p.a.wrapping_add(start),
                a_stride: p.a_stride,
                b,
                steps,
                groups: 1,
            });
        }
    }
}
