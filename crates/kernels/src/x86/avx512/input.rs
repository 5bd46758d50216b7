//! Inputs as rows meet them: arranged once for all rows, which would otherwise spend a sixth of their time on it.

use std::arch::x86_64::*;
use std::cell::Cell;

use super::row::{Row, both};
use super::{factored, quarters};
use crate::Q8Row;
use crate::array::{self, Each};
use crate::weights::Minima;
use crate::x86::avx2::format::GROUP;
use crate::x86::avx2::panel::Panel;
use crate::x86::avx2::registers::{load_i16, load_ps};
use crate::x86::avx2::rows::{half_sums, padded, whole_sums};

/// 256 activations, and what belongs to their blocks in lanes of two rows.
#[derive(Clone, Copy)]
pub struct Input {
    /// In the order of the weights.
    pub quants: [i8; GROUP],
    /// What sums of products are multiplied with.
    pub scales: __m512,
    /// What offsets of weights come to: as `row`, `quarters` and `factored` each have it.
    pub offsets: __m512i,
    /// What minima of weights are multiplied with: as many as the panel's `MINIMA` says.
    pub minima: [__m512; 2],
    /// What sums of `factored` start from.
    pub starts: [__m512i; 4],
}

thread_local! {
    /// Kept from call to call, so that decoding allocates nothing.
    static ROOM: Cell<Vec<Input>> = const { Cell::new(Vec::new()) };
}

/// Calls `then` with the inputs by groups, the last of each filled up with zeros. There are up to `MOST` inputs.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub fn with_inputs<R: Row, const MOST: usize>(x: &[Q8Row<'_>], then: impl FnOnce([&[Input]; MOST])) {
    let inputs = groups::<R>(x);
    let each = inputs.len() / x.len();
    then(array::of(|t| if t < x.len() { &inputs[t * each..][..each] } else { &[] }));
    ROOM.set(inputs);
}

/// All inputs by groups, in what is kept for them.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn groups<R: Row>(x: &[Q8Row<'_>]) -> Vec<Input> {
    let mut inputs = ROOM.take();
    inputs.clear();
    for x in x {
        let (quants, quants_rest) = x.quants.as_chunks::<GROUP>();
        let (scales, scales_rest) = x.scales.as_chunks::<8>();
        let (sums, sums_rest) = x.sums.as_chunks::<16>();
        for ((quants, scales), sums) in quants.iter().zip(scales).zip(sums) {
            inputs.push(arrange::<R>(quants, scales, sums));
        }
        if !quants_rest.is_empty() {
            inputs.push(arrange::<R>(&padded(quants_rest), &padded(scales_rest), &padded(sums_rest)));
        }
    }
    inputs
}

/// A group as [`Row`] has weights.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn arrange<R: Row>(quants: &[i8; GROUP], scales: &[f32; 8], sums: &[i16; 16]) -> Input {
    if const { R::QUARTERS.is_some() } {
        return quarters::input::<R>(quants, scales, sums);
    }
    if const { R::STRIPS.is_some() }
        && let Some(multiples) = R::STRIPS
    {
        return factored::input::<R>(quants, scales, sums, multiples);
    }
    in_order::<R>(quants, scales, sums)
}

/// Activations in order; lane = block, both halves alike; offsets are sums.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub fn in_order<R: Row>(quants: &[i8; GROUP], scales: &[f32; 8], sums: &[i16; 16]) -> Input {
    let (scales, sums) = (load_ps(scales), load_i16(sums));
    Input {
        quants: *quants,
        scales: both([scales; 2]),
        offsets: _mm512_broadcast_i64x4(sums),
        minima: match R::Panel::MINIMA {
            Minima::None => [_mm512_setzero_ps(); 2],
            Minima::Whole => [both([whole_sums(scales, sums); 2]); 2],
            Minima::Halves => half_sums(scales, sums).each(|sums| both([sums; 2])),
        },
        starts: [_mm512_setzero_si512(); 4],
    }
}

/// Activations by halves of blocks: half `order(i)` at place `i`.
pub fn reordered(quants: &[i8; GROUP], order: impl Fn(usize) -> usize) -> [i8; GROUP] {
    let halves = quants.as_chunks::<16>().0;
    let mut ordered = [0; GROUP];
    for (i, half) in ordered.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        *half = halves[order(i)];
    }
    ordered
}
