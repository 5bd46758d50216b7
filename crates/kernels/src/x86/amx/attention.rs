//! Attention of prompts on tiles. Queries, keys, weights and values are sums of two bfloat16 each; the product of the two
//! small halves is left out, as with weights of half precision. Keys and values of F16 are exact, others have 16 bits.
//!
//! F32 caches, which keep all bits, have none of this.
#![allow(clippy::needless_range_loop, reason = "the index of a register meets several arrays, with constant bounds")]

mod pack;
mod softmax;

use std::ops::Range;

use candor_quant::Format;

use super::tiles::{Tiles, multiply_halves};
use crate::attention::block::{BLOCK, GROUP, PAIR, PAIR_LINES, WEIGHT_LINES};
use crate::attention::tiles::{F16, Q4, Q8};
use crate::x86::avx512;
use crate::x86::batch::Engine;
use crate::{AttentionKernels, BlockProducts, Line};

/// AVX-512's rows, and blocks for the formats that halves are exact or good enough for.
pub fn attention(format: Format) -> Option<AttentionKernels> {
    let rows = avx512::attention(format)?;
    let block = match format {
        Format::F16 => Some(pack::kernels::<F16>(&PRODUCTS)),
        Format::Q8_0 => Some(pack::kernels::<Q8>(&PRODUCTS)),
        Format::Q4_0 => Some(pack::kernels::<Q4>(&PRODUCTS)),
        _ => None,
    };
    Some(AttentionKernels { block, ..rows })
}

static PRODUCTS: BlockProducts = BlockProducts { pack_queries: pack::queries, scores, softmax: softmax::softmax, mix };

fn scores(out: &mut [f32], queries: &[Line], keys: &[Line], pairs: Range<usize>) {
    let lines = queries.len();
    assert!(lines > 0 && lines.is_multiple_of(PAIR_LINES), "scores: {lines} lines of queries");
    assert!(pairs.end * PAIR <= BLOCK && pairs.end * lines <= keys.len(), "scores: {} lines of keys", keys.len());
    assert_eq!(out.len(), GROUP * BLOCK, "scores: room");
    // SAFETY: only AMX's table leads here, and there is no other guard: nothing that is called here makes one.
    let tiles = unsafe { Tiles::ready() };
    for pair in pairs {
        let keys = &keys[pair * lines..][..lines];
        // SAFETY: the assertions say that a pair's scores of each query are within `out`.
        unsafe { multiply_halves(&tiles, (out.as_mut_ptr().add(pair * PAIR), BLOCK), queries, keys) };
    }
}

fn mix(out: &mut [f32], weights: &[Line], values: &[Line], pairs: Range<usize>) {
    assert!(weights.len() == WEIGHT_LINES && values.len().is_multiple_of(WEIGHT_LINES), "mix: lines");
    let steps = values.len() / WEIGHT_LINES;
    assert_eq!(out.len(), GROUP * steps * 32, "mix: room");
    let some = pairs.start * PAIR_LINES..pairs.end * PAIR_LINES;
    // SAFETY: as in `scores`.
    let tiles = unsafe { Tiles::ready() };
    for (step, values) in values.chunks_exact(WEIGHT_LINES).enumerate() {
        // SAFETY: the assertions say that a step's columns of each query are within `out`.
        unsafe {
            let to = (out.as_mut_ptr().add(step * 32), steps * 32);
            multiply_halves(&tiles, to, &weights[some.clone()], &values[some.clone()]);
        }
    }
}
