//! Attention's products for any width of vector: scores, mixes, and the rows of a table that has them.
//!
//! Both are the same product, `c[q] += a[q][k] * b[k]`: `b[k]` is dimension `k` of some panels of keys, or row `k` of the
//! values. What differs between instruction sets is [`Wide`] and the sizes of tiles.

use super::cached::Cached;
use super::quantized::{Q4, Q8};
use super::source::{F16, F32};
use super::tile::Product;
use super::wide::{AHEAD, Wide};
use crate::OutTile;
use crate::attention::{PANEL, Queries, Weights, check_mix, check_scores};

/// `out[q] = queries[q] . keys`.
///
/// # Safety
/// The processor has the instruction set of `W`.
#[inline(always)]
unsafe fn scores<W: Wide, C: Cached>(out: OutTile<'_>, queries: Queries<'_>, keys: &[u8]) {
    let shape = check_scores(&out, C::FORMAT, queries, keys);
    for q in 0..shape.queries {
        out.values[q * out.stride..][..shape.panels * PANEL].fill(0.0);
    }
    let product = Product {
        c: out.values.as_mut_ptr(),
        c_stride: out.stride,
        a: queries.values.as_ptr(),
        a_stride: queries.dim,
        b: C::keys::<W>(keys.as_ptr(), shape.panel_bytes),
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
pub(crate) unsafe fn scores_f32<W: Wide>(out: OutTile<'_>, queries: Queries<'_>, keys: &[u8]) {
    // SAFETY: the caller's promise.
    unsafe { scores::<W, F32>(out, queries, keys) }
}

/// # Safety
/// As [`scores`].
#[inline(always)]
pub(crate) unsafe fn scores_f16<W: Wide>(out: OutTile<'_>, queries: Queries<'_>, keys: &[u8]) {
    // SAFETY: the caller's promise.
    unsafe { scores::<W, F16>(out, queries, keys) }
}

/// # Safety
/// As [`scores`].
#[inline(always)]
pub(crate) unsafe fn scores_q8_0<W: Wide>(out: OutTile<'_>, queries: Queries<'_>, keys: &[u8]) {
    // SAFETY: the caller's promise.
    unsafe { scores::<W, Q8>(out, queries, keys) }
}

/// # Safety
/// As [`scores`].
#[inline(always)]
pub(crate) unsafe fn scores_q4_0<W: Wide>(out: OutTile<'_>, queries: Queries<'_>, keys: &[u8]) {
    // SAFETY: the caller's promise.
    unsafe { scores::<W, Q4>(out, queries, keys) }
}

/// `out[q] += weights[q] @ values`.
///
/// # Safety
/// The processor has the instruction set of `W`.
#[inline(always)]
unsafe fn mix<W: Wide, C: Cached>(out: &mut [f32], weights: Weights<'_>, values: &[u8]) {
    let shape = check_mix(out, C::FORMAT, weights, values);
    let from = |step: usize| C::rows::<W>(values.as_ptr().wrapping_add(step * shape.row_bytes), shape.row_bytes);
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
    let chunk = (AHEAD / shape.row_bytes.max(1)).max(W::LEAST_STEPS);
    for (i, counts) in weights.counts.chunks(W::TOGETHER).enumerate() {
        let first = i * W::TOGETHER;
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
pub(crate) unsafe fn mix_f32<W: Wide>(out: &mut [f32], weights: Weights<'_>, values: &[u8]) {
    // SAFETY: the caller's promise.
    unsafe { mix::<W, F32>(out, weights, values) }
}

/// # Safety
/// As [`mix`].
#[inline(always)]
pub(crate) unsafe fn mix_f16<W: Wide>(out: &mut [f32], weights: Weights<'_>, values: &[u8]) {
    // SAFETY: the caller's promise.
    unsafe { mix::<W, F16>(out, weights, values) }
}

/// # Safety
/// As [`mix`].
#[inline(always)]
pub(crate) unsafe fn mix_q8_0<W: Wide>(out: &mut [f32], weights: Weights<'_>, values: &[u8]) {
    // SAFETY: the caller's promise.
    unsafe { mix::<W, Q8>(out, weights, values) }
}

/// # Safety
/// As [`mix`].
#[inline(always)]
pub(crate) unsafe fn mix_q4_0<W: Wide>(out: &mut [f32], weights: Weights<'_>, values: &[u8]) {
    // SAFETY: the caller's promise.
    unsafe { mix::<W, Q4>(out, weights, values) }
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
pub(crate) use rows;
