//! Tiles of several queries by several groups, their sums in registers: `c[q] += a[q][k] * b[k]`, one step after another.
#![allow(
    clippy::needless_range_loop,
    reason = "the index of a register tile meets several arrays, with constant bounds"
)]

use super::source::Source;
use super::wide::Wide;
use crate::array;
use crate::attention::PANEL;

/// `c[q] += a[q] @ b` for some queries.
#[derive(Clone, Copy)]
pub(crate) struct Product<S> {
    /// `[queries]`, each of `groups` groups.
    pub(super) c: *mut f32,
    pub(super) c_stride: usize,
    /// `[queries][steps]`
    pub(super) a: *const f32,
    pub(super) a_stride: usize,
    pub(super) b: S,
    pub(super) steps: usize,
    pub(super) groups: usize,
}

impl<S: Copy> Product<S> {
    /// The same from another query and step on. The caller sees to the number of queries.
    #[inline(always)]
    pub(crate) fn from(self, query: usize, step: usize) -> Self {
        let (c, a) = (self.c.wrapping_add(query * self.c_stride), self.a.wrapping_add(query * self.a_stride + step));
        Product { c, a, ..self }
    }
}

/// Adds step `k` of a source from its group `odd` on; `a` gives a query's numbers, of which the `STEP`-th is meant.
///
/// # Safety
/// As [`tile`].
#[inline(always)]
unsafe fn add<W: Wide, S: Source<W>, const Q: usize, const N: usize, const STEP: i32>(
    sums: &mut [[W; N]; Q],
    a: impl Fn(usize) -> W::Steps + Copy,
    (b, odd, k): (S, usize, usize),
    mut scales: [W; N],
) {
    // SAFETY: the caller's promise.
    unsafe {
        if S::SPAN == 1 {
            for n in 0..N {
                scales[n] = b.scale(k, odd + n);
            }
        }
        let mut groups = [W::zero(); N];
        for n in 0..N {
            groups[n] = b.group(k, odd + n, scales[n]);
        }
        // All of them before the first sum: one at a time takes AVX2 10 % longer.
        let a: [W::Steps; Q] = array::of(a);
        for q in 0..Q {
            for n in 0..N {
                sums[q][n] = sums[q][n].plus::<STEP>(a[q], groups[n]);
            }
        }
    }
}

/// `Q` queries by `N` groups, from group `first` on, which is even where `N` is.
///
/// # Safety
/// The processor has the instruction set of `W`, and all that the product names lies within its slices.
#[inline(always)]
unsafe fn tile<W: Wide, S: Source<W>, const Q: usize, const N: usize>(p: Product<S>, first: usize) {
    const { assert!(W::STEPS == 1 || W::STEPS == 4) };
    // SAFETY: the caller's promise; offsets are those of the named elements.
    unsafe {
        let (b, odd) = (p.b.skip(first / 2 * 2), if N.is_multiple_of(2) { 0 } else { first % 2 });
        let mut sums = [[W::zero(); N]; Q];
        for q in 0..Q {
            for n in 0..N {
                sums[q][n] = W::load(p.c.add(q * p.c_stride + (first + n) * PANEL).cast());
            }
        }
        // A scale for each step is loaded with it.
        let span = if S::SPAN == 1 { usize::MAX } else { S::SPAN };
        let mut k = 0;
        while k < p.steps {
            let mut scales = [W::zero(); N];
            if S::SPAN > 1 {
                for n in 0..N {
                    scales[n] = b.scale(k, odd + n);
                }
            }
            let end = p.steps.min(k.saturating_add(span));
            while const { W::STEPS == 4 } && k + 4 <= end {
                let a: [W::Steps; Q] = array::of(|q| W::steps(p.a.add(q * p.a_stride + k)));
                add::<W, S, Q, N, 0>(&mut sums, |q| a[q], (b, odd, k), scales);
                add::<W, S, Q, N, 1>(&mut sums, |q| a[q], (b, odd, k + 1), scales);
                add::<W, S, Q, N, 2>(&mut sums, |q| a[q], (b, odd, k + 2), scales);
                add::<W, S, Q, N, 3>(&mut sums, |q| a[q], (b, odd, k + 3), scales);
                k += 4;
            }
            while k < end {
                add::<W, S, Q, N, 0>(&mut sums, |q| W::step(p.a.add(q * p.a_stride + k)), (b, odd, k), scales);
                k += 1;
            }
        }
        for q in 0..Q {
            for n in 0..N {
                sums[q][n].store(p.c.add(q * p.c_stride + (first + n) * PANEL).cast());
            }
        }
    }
}

/// `Q` queries by all groups: `N` at a time, then `M`, then one. `N` and `M` are even or 1, or anything where
/// groups have no scales.
///
/// # Safety
/// As [`tile`].
#[inline(always)]
pub(crate) unsafe fn strip<W: Wide, S: Source<W>, const Q: usize, const N: usize, const M: usize>(p: Product<S>) {
    let mut first = 0;
    // SAFETY: the caller's promise; groups end at `p.groups`.
    unsafe {
        while first + N <= p.groups {
            tile::<W, S, Q, N>(p, first);
            first += N;
        }
        while M < N && first + M <= p.groups {
            tile::<W, S, Q, M>(p, first);
            first += M;
        }
        while M > 1 && first < p.groups {
            tile::<W, S, Q, 1>(p, first);
            first += 1;
        }
    }
}
