//! Attention's products for any width of vector: register tiles of several queries by several groups of 16 lanes.
//!
//! Scores and mixes are the same product, `c[q] += a[q][k] * b[k]`: `b[k]` is dimension `k` of some panels of keys, or
//! row `k` of the values. What differs between instruction sets is [`Wide`] and the sizes of tiles.
#![allow(
    clippy::needless_range_loop,
    reason = "the index of a register tile meets several arrays, with constant bounds"
)]

use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
use std::marker::PhantomData;

use candor_quant::Format;

use crate::OutTile;
use crate::attention::{PANEL, Queries, Weights, check_mix, check_scores};

/// Bytes that prefetches run ahead: reading eight queries' keys from memory then goes at 18 GB/s instead of
/// 9, with 2048 at 15.
const AHEAD: usize = 4096;

/// Prefetches what comes some time after `at`, which is handed back.
#[inline(always)]
fn ahead(at: *const u8) -> *const u8 {
    // SAFETY: every x86-64 processor has the instruction, and it faults at no address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(at.wrapping_add(AHEAD).cast()) };
    at
}

/// Sixteen floats in registers.
///
/// # Safety
/// Every method needs the instruction set of the type. Pointers are good for the numbers that the name says, at any
/// alignment.
pub unsafe trait Wide: Copy {
    unsafe fn zero() -> Self;
    unsafe fn splat(x: f32) -> Self;
    /// `a * b + self`, rounded once.
    unsafe fn plus(self, a: Self, b: Self) -> Self;
    unsafe fn times(self, b: Self) -> Self;
    unsafe fn load(at: *const u8) -> Self;
    unsafe fn store(self, at: *mut u8);
    unsafe fn load_f16(at: *const u8) -> Self;
    unsafe fn load_i8(at: *const u8) -> Self;
    /// The 4 bits from `bit` on of each of 16 bytes, less 8.
    unsafe fn load_u4(at: *const u8, bit: usize) -> Self;
    /// One half, in all lanes.
    unsafe fn splat_f16(at: *const u8) -> Self;
    /// Runs a product of `queries` queries in tiles that fit this type's registers, by [`strip`].
    unsafe fn run<S: Source<Self>>(product: Product<S>, queries: usize);
}

/// Where `b` lies: group `n` of step `k`.
///
/// # Safety
/// Every method needs the instruction set of `W`, and a group that lies within the cached bytes.
pub unsafe trait Source<W: Wide>: Copy {
    /// Steps that share their scales; steps are a multiple of it, or are all of them.
    const SPAN: usize;
    unsafe fn scale(self, k: usize, n: usize) -> W;
    unsafe fn group(self, k: usize, n: usize, scale: W) -> W;
    /// The same with its first `groups` groups left out, an even number of them.
    unsafe fn skip(self, groups: usize) -> Self;
}

/// Numbers without scales: keys or values, by their steps in bytes.
#[derive(Clone, Copy)]
struct Floats<N> {
    base: *const u8,
    k_step: usize,
    n_step: usize,
    number: PhantomData<N>,
}

/// A float of the cache.
trait Number: Copy {
    const FORMAT: Format;
    /// Widens 16.
    ///
    /// # Safety
    /// As [`Wide`].
    unsafe fn load<W: Wide>(at: *const u8) -> W;
}

#[derive(Clone, Copy)]
struct F32;
#[derive(Clone, Copy)]
struct F16;

impl Number for F32 {
    const FORMAT: Format = Format::F32;

    #[inline(always)]
    unsafe fn load<W: Wide>(at: *const u8) -> W {
        // SAFETY: the caller's promise.
        unsafe { W::load(at) }
    }
}

impl Number for F16 {
    const FORMAT: Format = Format::F16;

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
        unsafe { N::load(ahead(self.base.add(k * self.k_step + n * self.n_step))) }
    }

    #[inline(always)]
    unsafe fn skip(self, groups: usize) -> Self {
        // SAFETY: the caller's promise.
        Floats { base: unsafe { self.base.add(groups * self.n_step) }, ..self }
    }
}

/// Panels of Q8_0 keys.
#[derive(Clone, Copy)]
struct Q8Keys {
    base: *const u8,
    panel_bytes: usize,
}

/// Bytes of a Q8_0 panel's 32 dimensions.
const Q8_BLOCK: usize = 34 * PANEL;

// SAFETY: `scale` and `group` read what `attention` says of the layout.
unsafe impl<W: Wide> Source<W> for Q8Keys {
    const SPAN: usize = 32;

    #[inline(always)]
    unsafe fn scale(self, k: usize, n: usize) -> W {
        // SAFETY: the caller's promise.
        unsafe { W::load_f16(self.base.add(n * self.panel_bytes + k / 32 * Q8_BLOCK)) }
    }

    #[inline(always)]
    unsafe fn group(self, k: usize, n: usize, scale: W) -> W {
        let at = n * self.panel_bytes + k / 32 * Q8_BLOCK + 2 * PANEL + k % 32 * PANEL;
        // SAFETY: the caller's promise.
        unsafe { W::load_i8(ahead(self.base.add(at))).times(scale) }
    }

    #[inline(always)]
    unsafe fn skip(self, groups: usize) -> Self {
        // SAFETY: the caller's promise.
        Q8Keys { base: unsafe { self.base.add(groups * self.panel_bytes) }, ..self }
    }
}

/// Rows of Q8_0 values.
#[derive(Clone, Copy)]
struct Q8Values {
    base: *const u8,
    row_bytes: usize,
}

// SAFETY: as above.
unsafe impl<W: Wide> Source<W> for Q8Values {
    const SPAN: usize = 1;

    #[inline(always)]
    unsafe fn scale(self, k: usize, n: usize) -> W {
        // SAFETY: the caller's promise.
        unsafe { W::splat_f16(self.base.add(k * self.row_bytes + n / 2 * 34)) }
    }

    #[inline(always)]
    unsafe fn group(self, k: usize, n: usize, scale: W) -> W {
        // SAFETY: the caller's promise.
        unsafe { W::load_i8(ahead(self.base.add(k * self.row_bytes + n / 2 * 34 + 2 + n % 2 * PANEL))).times(scale) }
    }

    #[inline(always)]
    unsafe fn skip(self, groups: usize) -> Self {
        // SAFETY: the caller's promise.
        Q8Values { base: unsafe { self.base.add(groups / 2 * 34) }, ..self }
    }
}

/// Panels of Q4_0 keys.
#[derive(Clone, Copy)]
struct Q4Keys {
    base: *const u8,
    panel_bytes: usize,
}

/// Bytes of a Q4_0 panel's 32 dimensions.
const Q4_BLOCK: usize = 18 * PANEL;

// SAFETY: as above.
unsafe impl<W: Wide> Source<W> for Q4Keys {
    const SPAN: usize = 32;

    #[inline(always)]
    unsafe fn scale(self, k: usize, n: usize) -> W {
        // SAFETY: the caller's promise.
        unsafe { W::load_f16(self.base.add(n * self.panel_bytes + k / 32 * Q4_BLOCK)) }
    }

    #[inline(always)]
    unsafe fn group(self, k: usize, n: usize, scale: W) -> W {
        let at = n * self.panel_bytes + k / 32 * Q4_BLOCK + 2 * PANEL + k % 16 * PANEL;
        // SAFETY: the caller's promise.
        unsafe { W::load_u4(ahead(self.base.add(at)), k / 16 % 2 * 4).times(scale) }
    }

    #[inline(always)]
    unsafe fn skip(self, groups: usize) -> Self {
        // SAFETY: the caller's promise.
        Q4Keys { base: unsafe { self.base.add(groups * self.panel_bytes) }, ..self }
    }
}

/// Rows of Q4_0 values.
#[derive(Clone, Copy)]
struct Q4Values {
    base: *const u8,
    row_bytes: usize,
}

// SAFETY: as above.
unsafe impl<W: Wide> Source<W> for Q4Values {
    const SPAN: usize = 1;

    #[inline(always)]
    unsafe fn scale(self, k: usize, n: usize) -> W {
        // SAFETY: the caller's promise.
        unsafe { W::splat_f16(self.base.add(k * self.row_bytes + n / 2 * 18)) }
    }

    #[inline(always)]
    unsafe fn group(self, k: usize, n: usize, scale: W) -> W {
        // SAFETY: the caller's promise.
        unsafe { W::load_u4(ahead(self.base.add(k * self.row_bytes + n / 2 * 18 + 2)), n % 2 * 4).times(scale) }
    }

    #[inline(always)]
    unsafe fn skip(self, groups: usize) -> Self {
        // SAFETY: the caller's promise.
        Q4Values { base: unsafe { self.base.add(groups / 2 * 18) }, ..self }
    }
}

/// `c[q] += a[q] @ b` for some queries.
#[derive(Clone, Copy)]
pub struct Product<S> {
    /// `[queries]`, each of `groups` groups.
    c: *mut f32,
    c_stride: usize,
    /// `[queries][steps]`
    a: *const f32,
    a_stride: usize,
    b: S,
    steps: usize,
    groups: usize,
}

impl<S: Copy> Product<S> {
    /// The same from another query and step on. The caller sees to the number of queries.
    #[inline(always)]
    pub fn from(self, query: usize, step: usize) -> Self {
        let (c, a) = (self.c.wrapping_add(query * self.c_stride), self.a.wrapping_add(query * self.a_stride + step));
        Product { c, a, ..self }
    }
}

/// `Q` queries by `N` groups, from group `first` on, which is even where `N` is.
///
/// # Safety
/// The processor has the instruction set of `W`, and all that the product names lies within its slices.
#[inline(always)]
unsafe fn tile<W: Wide, S: Source<W>, const Q: usize, const N: usize>(p: Product<S>, first: usize) {
    // SAFETY: the caller's promise; offsets are those of the named elements.
    unsafe {
        let (b, odd) = (p.b.skip(first / 2 * 2), if N.is_multiple_of(2) { 0 } else { first % 2 });
        let mut sums = [[W::zero(); N]; Q];
        for q in 0..Q {
            for n in 0..N {
                sums[q][n] = W::load(p.c.add(q * p.c_stride + (first + n) * PANEL).cast());
            }
        }
        let mut k = 0;
        while k < p.steps {
            let mut scales = [W::zero(); N];
            for n in 0..N {
                scales[n] = b.scale(k, odd + n);
            }
            let end = p.steps.min(k.saturating_add(S::SPAN));
            while k < end {
                let mut groups = [W::zero(); N];
                for n in 0..N {
                    groups[n] = b.group(k, odd + n, scales[n]);
                }
                for q in 0..Q {
                    let a = W::splat(*p.a.add(q * p.a_stride + k));
                    for n in 0..N {
                        sums[q][n] = sums[q][n].plus(a, groups[n]);
                    }
                }
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

/// `Q` queries by all groups: `N` at a time, then `M`, then one. `N` and `M` are even or 1.
///
/// # Safety
/// As [`tile`].
#[inline(always)]
pub unsafe fn strip<W: Wide, S: Source<W>, const Q: usize, const N: usize, const M: usize>(p: Product<S>) {
    let mut first = 0;
    // SAFETY: the caller's promise; groups end at `p.groups`.
    unsafe {
        while first + N <= p.groups {
            tile::<W, S, Q, N>(p, first);
            first += N;
        }
        while first + M <= p.groups {
            tile::<W, S, Q, M>(p, first);
            first += M;
        }
        while first < p.groups {
            tile::<W, S, Q, 1>(p, first);
            first += 1;
        }
    }
}

/// `out[q] = queries[q] . keys`, once the panels' places are known.
///
/// # Safety
/// The processor has the instruction set of `W`.
#[inline(always)]
unsafe fn scores<W: Wide, S: Source<W>>(
    out: OutTile<'_>,
    format: Format,
    queries: Queries<'_>,
    keys: &[u8],
    panels: impl Fn(*const u8, usize) -> S,
) {
    let shape = check_scores(&out, format, queries, keys);
    for q in 0..shape.queries {
        out.values[q * out.stride..][..shape.panels * PANEL].fill(0.0);
    }
    let product = Product {
        c: out.values.as_mut_ptr(),
        c_stride: out.stride,
        a: queries.values.as_ptr(),
        a_stride: queries.dim,
        b: panels(keys.as_ptr(), shape.panel_bytes),
        steps: queries.dim,
        groups: shape.panels,
    };
    // SAFETY: `check_scores` found the queries, the panels and their outputs within the slices; the rest is the
    // caller's promise.
    unsafe { W::run(product, shape.queries) }
}

/// # Safety
/// As [`scores`].
#[inline(always)]
unsafe fn scores_of<W: Wide, N: Number>(out: OutTile<'_>, queries: Queries<'_>, keys: &[u8]) {
    let k_step = N::FORMAT.block_bytes() * PANEL;
    // SAFETY: the caller's promise.
    unsafe {
        scores::<W, _>(out, N::FORMAT, queries, keys, |base, n_step| Floats {
            base,
            k_step,
            n_step,
            number: PhantomData::<N>,
        })
    }
}

/// # Safety
/// As [`scores`].
#[inline(always)]
pub unsafe fn scores_f32<W: Wide>(out: OutTile<'_>, queries: Queries<'_>, keys: &[u8]) {
    // SAFETY: the caller's promise.
    unsafe { scores_of::<W, F32>(out, queries, keys) }
}

/// # Safety
/// As [`scores`].
#[inline(always)]
pub unsafe fn scores_f16<W: Wide>(out: OutTile<'_>, queries: Queries<'_>, keys: &[u8]) {
    // SAFETY: the caller's promise.
    unsafe { scores_of::<W, F16>(out, queries, keys) }
}

/// # Safety
/// As [`scores`].
#[inline(always)]
pub unsafe fn scores_q8_0<W: Wide>(out: OutTile<'_>, queries: Queries<'_>, keys: &[u8]) {
    // SAFETY: the caller's promise.
    unsafe { scores::<W, _>(out, Format::Q8_0, queries, keys, |base, panel_bytes| Q8Keys { base, panel_bytes }) }
}

/// # Safety
/// As [`scores`].
#[inline(always)]
pub unsafe fn scores_q4_0<W: Wide>(out: OutTile<'_>, queries: Queries<'_>, keys: &[u8]) {
    // SAFETY: the caller's promise.
    unsafe { scores::<W, _>(out, Format::Q4_0, queries, keys, |base, panel_bytes| Q4Keys { base, panel_bytes }) }
}

/// Queries that go together as far as all of them see, and one by one from there.
const TOGETHER: usize = 8;

/// Positions of a mix that are worth loading and storing the sums for.
const LEAST_STEPS: usize = 32;

/// `out[q] += weights[q] @ values`, once the rows' places are known.
///
/// # Safety
/// The processor has the instruction set of `W`.
#[inline(always)]
unsafe fn mix<W: Wide, S: Source<W>>(
    out: &mut [f32],
    format: Format,
    weights: Weights<'_>,
    values: &[u8],
    rows: impl Fn(*const u8, usize) -> S,
) {
    let shape = check_mix(out, format, weights, values);
    let from = |step: usize| rows(values.as_ptr().wrapping_add(step * shape.row_bytes), shape.row_bytes);
    let all = Product {
        c: out.as_mut_ptr(),
        c_stride: shape.width,
        a: weights.values.as_ptr(),
        a_stride: weights.stride,
        b: from(0),
        steps: 0,
        groups: shape.width / PANEL,
    };
    // While one part's columns are worked through, prefetches bring in the next.
    let chunk = (AHEAD / shape.row_bytes.max(1)).max(LEAST_STEPS);
    for (i, counts) in weights.counts.chunks(TOGETHER).enumerate() {
        let first = i * TOGETHER;
        let common = counts.iter().copied().min().unwrap_or(0);
        for start in (0..common).step_by(chunk) {
            let part = Product { steps: chunk.min(common - start), b: from(start), ..all.from(first, start) };
            // SAFETY: `check_mix` found every query's output, weights and rows within the slices; the rest is the
            // caller's promise.
            unsafe { W::run(part, counts.len()) };
        }
        for (q, &count) in counts.iter().enumerate().filter(|&(_, &count)| count > common) {
            let rest = Product { steps: count - common, b: from(common), ..all.from(first + q, common) };
            // SAFETY: as above.
            unsafe { W::run(rest, 1) };
        }
    }
}

/// # Safety
/// As [`mix`].
#[inline(always)]
unsafe fn mix_of<W: Wide, N: Number>(out: &mut [f32], weights: Weights<'_>, values: &[u8]) {
    let n_step = N::FORMAT.block_bytes() * PANEL;
    // SAFETY: the caller's promise.
    unsafe {
        mix::<W, _>(out, N::FORMAT, weights, values, |base, k_step| Floats {
            base,
            k_step,
            n_step,
            number: PhantomData::<N>,
        })
    }
}

/// # Safety
/// As [`mix`].
#[inline(always)]
pub unsafe fn mix_f32<W: Wide>(out: &mut [f32], weights: Weights<'_>, values: &[u8]) {
    // SAFETY: the caller's promise.
    unsafe { mix_of::<W, F32>(out, weights, values) }
}

/// # Safety
/// As [`mix`].
#[inline(always)]
pub unsafe fn mix_f16<W: Wide>(out: &mut [f32], weights: Weights<'_>, values: &[u8]) {
    // SAFETY: the caller's promise.
    unsafe { mix_of::<W, F16>(out, weights, values) }
}

/// # Safety
/// As [`mix`].
#[inline(always)]
pub unsafe fn mix_q8_0<W: Wide>(out: &mut [f32], weights: Weights<'_>, values: &[u8]) {
    // SAFETY: the caller's promise.
    unsafe { mix::<W, _>(out, Format::Q8_0, weights, values, |base, row_bytes| Q8Values { base, row_bytes }) }
}

/// # Safety
/// As [`mix`].
#[inline(always)]
pub unsafe fn mix_q4_0<W: Wide>(out: &mut [f32], weights: Weights<'_>, values: &[u8]) {
    // SAFETY: the caller's promise.
    unsafe { mix::<W, _>(out, Format::Q4_0, weights, values, |base, row_bytes| Q4Values { base, row_bytes }) }
}

/// A table's rows: wraps the products in functions with the features on.
macro_rules! rows {
    ($features:literal, $wide:ty, $to_f16:expr) => {
        pub fn attention(format: Format) -> Option<AttentionKernels> {
            let scalar = (Kernels::scalar().attention)(format)?;
            Some(match format {
                Format::F32 => AttentionKernels { scores: scores_f32, mix: mix_f32, ..scalar },
                Format::F16 => AttentionKernels {
                    scores: scores_f16,
                    mix: mix_f16,
                    put_key: |panel, lane, key| put_key_f16(panel, lane, key, $to_f16),
                    put_value: |row, value| put_value_f16(row, value, $to_f16),
                    ..scalar
                },
                Format::Q8_0 => AttentionKernels { scores: scores_q8_0, mix: mix_q8_0, ..scalar },
                Format::Q4_0 => AttentionKernels { scores: scores_q4_0, mix: mix_q4_0, ..scalar },
                _ => scalar,
            })
        }

        rows!(@scores $features, $wide, scores_f32 scores_f16 scores_q8_0 scores_q4_0);
        rows!(@mix $features, $wide, mix_f32 mix_f16 mix_q8_0 mix_q4_0);
    };
    (@scores $features:literal, $wide:ty, $($name:ident)*) => {
        $(fn $name(out: OutTile<'_>, queries: Queries<'_>, keys: &[u8]) {
            #[target_feature(enable = $features)]
            fn compiled(out: OutTile<'_>, queries: Queries<'_>, keys: &[u8]) {
                // SAFETY: this function has the features of the type.
                unsafe { products::$name::<$wide>(out, queries, keys) }
            }
            // SAFETY: only the table leads here, and only the proof of its features to the table.
            unsafe { compiled(out, queries, keys) }
        })*
    };
    (@mix $features:literal, $wide:ty, $($name:ident)*) => {
        $(fn $name(out: &mut [f32], weights: Weights<'_>, values: &[u8]) {
            #[target_feature(enable = $features)]
            fn compiled(out: &mut [f32], weights: Weights<'_>, values: &[u8]) {
                // SAFETY: this function has the features of the type.
                unsafe { products::$name::<$wide>(out, weights, values) }
            }
            // SAFETY: only the table leads here, and only the proof of its features to the table.
            unsafe { compiled(out, weights, values) }
        })*
    };
}
pub(super) use rows;
