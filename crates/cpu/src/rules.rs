//! What happens to attention's scores before their softmax: caps, slopes, scores by distance, sinks.

use candor_kernels::{F32Kernels, Function};
use candor_ops::{Attention, Mask, alibi_slope, relative_bucket};

use crate::Weight;
use crate::buffer::room;

/// The rules of a layer; for most models there are none.
pub(crate) struct Rules<'a> {
    mask: Mask,
    soft_cap: Option<f32>,
    /// The greatest exponent of the heads' slopes.
    alibi: Option<f32>,
    /// A score per head.
    sinks: Option<&'a [f32]>,
    /// `[buckets, heads]`, and the distance from which all are in the last bucket.
    relative: Option<(&'a [f32], usize, usize)>,
    heads: usize,
}

impl<'a> Rules<'a> {
    /// `scratch` is room for scores by distance.
    pub(crate) fn new(attention: &Attention<'a, Weight>, scratch: &'a mut Vec<f32>) -> Rules<'a> {
        let Attention { heads, mask, soft_cap, alibi, sinks, relative } = *attention;
        let heads = heads.heads;
        let relative = relative.map(|relative| {
            let table = room(scratch, relative.buckets * heads);
            table.chunks_exact_mut(heads).enumerate().for_each(|(bucket, row)| relative.table.decode(bucket, row));
            (&*table, relative.buckets, relative.most)
        });
        Rules { mask, soft_cap, alibi, sinks: sinks.map(Weight::vector), relative, heads }
    }

    /// The score that takes part in the softmax of a query head and has no value.
    pub(crate) fn sink(&self, head: usize) -> Option<f32> {
        self.sinks.map(|sinks| sinks[head])
    }

    /// Changes the scaled scores of a query of `head` at `position` with the keys from `first` on.
    pub(crate) fn adjust(&self, scores: &mut [f32], head: usize, (position, first): (u32, usize), f32: &F32Kernels) {
        if let Some(cap) = self.soft_cap {
            (f32.function)(scores, Function::SoftCap(cap));
        }
        let position = position as usize;
        if let Some(max) = self.alibi {
            let slope = alibi_slope(head, self.heads, max) as f32;
            for (p, score) in (first..).zip(scores.iter_mut()) {
                *score -= slope * position.abs_diff(p) as f32;
            }
        }
        if let Some((table, buckets, most)) = self.relative {
            for (p, score) in (first..).zip(scores) {
                let bucket = relative_bucket(p as i64 - position as i64, self.mask.is_both(), buckets, most);
                *score += table[bucket * self.heads + head];
            }
        }
    }
}
