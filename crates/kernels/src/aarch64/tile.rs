//! Tiles: a panel of eight rows times a few inputs over a segment.

use std::arch::aarch64::*;

use super::integer::{Integer, Tile};
use super::panel::{Block, QUADS};
use super::registers::{load_f32, load_i32};
use crate::array::Each;
use crate::kind::Kind;
use crate::order::{LANES, SEGMENT_BLOCKS};
use crate::weights::Minima;

/// `T` inputs over a segment, block by block.
pub struct Inputs<'a, const T: usize> {
    pub quants: [&'a [[i8; 32]]; T],
    pub scales: &'a [[f32; SEGMENT_BLOCKS]; T],
    /// Scales times sums of quants: of the whole blocks, or of their first and of their second halves.
    pub sums: [&'a [[f32; SEGMENT_BLOCKS]; T]; 2],
}

/// The products over the segment; place = input, lane = row.
///
/// The blocks of one of the order's lanes after the other, so that its sums stay in registers. Knows the kind of a
/// format and not the format: four of these per instruction set and size, not twelve.
///
/// # Safety
/// The processor has `I`.
#[target_feature(enable = "neon")]
pub unsafe fn tile<I: Integer, K: Kind, const T: usize>(panel: &[Block], x: &Inputs<'_, T>) -> Tile<float32x4_t, T> {
    let mut lanes = [[[vdupq_n_f32(0.0); QUADS]; T]; LANES];
    for (j, lane) in lanes.iter_mut().enumerate() {
        let mut total = [[vdupq_n_f32(0.0); QUADS]; T];
        for b in (j..panel.len()).step_by(LANES) {
            // SAFETY: as this function's.
            unsafe { add_block::<I, K, T>(&mut total, &panel[b], b, x) };
        }
        *lane = total;
    }
    let mut sum = [[vdupq_n_f32(0.0); QUADS]; T];
    for t in 0..T {
        for q in 0..QUADS {
            let [a, b, c, d, e, f, g, h] = lanes.each_ref().each(|lane| lane[t][q]);
            let even = vaddq_f32(vaddq_f32(a, e), vaddq_f32(c, g));
            let odd = vaddq_f32(vaddq_f32(b, f), vaddq_f32(d, h));
            sum[t][q] = vaddq_f32(even, odd);
        }
    }
    // SAFETY: as this function's.
    unsafe { I::in_rows(sum) }
}

#[inline]
#[target_feature(enable = "neon")]
unsafe fn add_block<I: Integer, K: Kind, const T: usize>(
    total: &mut Tile<float32x4_t, T>,
    block: &Block,
    b: usize,
    x: &Inputs<'_, T>,
) {
    // SAFETY: as this function's.
    let sums = unsafe { block_sums::<I, K, T>(block, x.quants.each(|quants| &quants[b])) };
    for t in 0..T {
        // SAFETY: as this function's.
        let of_inputs = |inputs| unsafe { I::of_inputs(inputs, b, t) };
        let scale = of_inputs(x.scales);
        for q in 0..QUADS {
            // SAFETY: as this function's.
            let of_rows = |rows| unsafe { I::of_rows(load_f32(rows, 0), t) };
            // SAFETY: as this function's.
            let sum = if K::FACTORS { vcvtq_f32_s32(sums[t][q]) } else { unsafe { I::float(sums[t][q]) } };
            let scaled = vmulq_f32(sum, of_rows(&block.scale[q]));
            let mut next = vfmaq_f32(total[t][q], scaled, scale);
            if K::MINIMA != Minima::None {
                next = vfmsq_f32(next, of_rows(&block.minima[0][q]), of_inputs(x.sums[0]));
            }
            if K::MINIMA == Minima::Halves {
                next = vfmsq_f32(next, of_rows(&block.minima[1][q]), of_inputs(x.sums[1]));
            }
            total[t][q] = next;
        }
    }
}

/// Exact sums of a block: its factors applied, or as `Integer::float` takes them.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn block_sums<I: Integer, K: Kind, const T: usize>(block: &Block, x: [&[i8; 32]; T]) -> Tile<int32x4_t, T> {
    if !K::FACTORS {
        // SAFETY: as this function's.
        return unsafe { I::sums(&block.quants, x, 0) };
    }
    // SAFETY: as this function's.
    unsafe {
        let [mut sums, second] = I::halves::<T>(&block.quants, x);
        for t in 0..T {
            for q in 0..QUADS {
                let of_rows = |rows| vreinterpretq_s32_f32(I::of_rows(vreinterpretq_f32_s32(load_i32(rows)), t));
                let reduced = vmulq_s32(sums[t][q], of_rows(&block.factors[0][q]));
                sums[t][q] = vmlaq_s32(reduced, second[t][q], of_rows(&block.factors[1][q]));
            }
        }
        sums
    }
}
